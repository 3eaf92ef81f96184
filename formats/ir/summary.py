"""A short description of a model: its types as text, and the short tables that a notebook shows, also of reports."""

from __future__ import annotations

from collections import Counter
from html import escape
from itertools import islice
from typing import TYPE_CHECKING

from formats.errors import FormatError
from formats.ir import ONNX, dtypes
from formats.words import listed

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from formats.ir.model import Model, Tensor, TensorShape, Type, ValueInfo

SHOWN_OPERATORS = 8
SHOWN_VALUES = 12
SHOWN_ROWS = 12
MAX_TEXT = 300  # letters of a cell


def model_table(model: Model) -> str:
    """A table in HTML with a model's facts about itself, its inputs and outputs, operators and weights.

    Everything from the model is shown as text, whatever it contains.
    """
    try:
        rows = list(_rows(model))
    except FormatError as error:  # an undecoded list is damaged
        rows = [("damaged", str(error))]
    return html_table("Model", _name(model), rows)


def _name(model: Model) -> str:
    return (model.graph.name if model.graph else None) or ""


def _rows(model: Model) -> Iterator[tuple[str, str]]:
    producer = " ".join(filter(None, (model.producer_name, model.producer_version)))
    if producer:
        yield "producer", producer
    if model.opset_import:
        yield "operator sets", ", ".join(f"{entry.domain or ONNX} {entry.version}" for entry in model.opset_import)
    graph = model.graph
    if graph is None:
        yield "graph", "none"
        return
    yield from _values("input", graph.input)
    yield from _values("output", graph.output)
    operators = Counter(node.op_type or "" for node in graph.node)
    counts = listed([f"{count} {name}" for name, count in operators.most_common()], SHOWN_OPERATORS)
    yield "nodes", f"{len(graph.node)}: {counts}" if operators else "0"
    tensors = [tensor for _, tensor in model.tensors()]
    yield "tensors", f"{len(tensors)}, {_nbytes(tensors)} bytes"
    if model.functions:
        yield "functions", str(len(model.functions))


def _values(title: str, values: list[ValueInfo]) -> Iterator[tuple[str, str]]:
    for value in values[:SHOWN_VALUES]:
        yield title, f"{value.name}: {type_with_dims(value.type) or '?'}"
    if len(values) > SHOWN_VALUES:
        yield title, f" and {len(values) - SHOWN_VALUES} more"


def _nbytes(tensors: Iterable[Tensor]) -> int:
    """The size of the elements of these tensors in bytes, as far as their types and shapes are known."""
    rows = ((dtypes.BY_NUMBER.get(tensor.data_type or 0), tensor.dims) for tensor in tensors)
    return sum(row.nbytes(dims) for row, dims in rows if row and row.bits and min(dims, default=0) >= 0)


def type_with_dims(value_type: Type | None) -> str:
    """A type in the text form of ONNX; "" if it is not known.

    Spec: ONNX docs, "Open Neural Network Exchange (ONNX) Text Syntax".
    """
    if value_type is None:
        return ""
    if value_type.tensor_type is not None:
        return _tensor_text(value_type.tensor_type.elem_type, value_type.tensor_type.shape)
    if value_type.sparse_tensor_type is not None:
        inner = value_type.sparse_tensor_type
        return f"sparse_tensor({_tensor_text(inner.elem_type, inner.shape)})"
    if value_type.sequence_type is not None:
        return f"seq({type_with_dims(value_type.sequence_type.elem_type)})"
    if value_type.optional_type is not None:
        return f"optional({type_with_dims(value_type.optional_type.elem_type)})"
    if value_type.map_type is not None:
        key = dtypes.type_name(value_type.map_type.key_type).lower()
        return f"map({key}, {type_with_dims(value_type.map_type.value_type)})"
    if value_type.opaque_type is not None:
        return f"opaque({value_type.opaque_type.domain or ''}, {value_type.opaque_type.name or ''})"
    return ""


def _tensor_text(elem_type: int | None, shape: TensorShape | None) -> str:
    name = dtypes.type_name(elem_type).lower()
    if shape is None:
        return f"{name}[]"
    if not shape.dim:
        return name
    sizes = (dim.dim_param or ("?" if dim.dim_value is None else str(dim.dim_value)) for dim in shape.dim)
    return f"{name}[{','.join(sizes)}]"


# Tables in HTML


def html_table(title: str, subject: str, rows: Iterable[tuple[str, str]]) -> str:
    """A table with two columns under a title and its subject. Each text is shown as text, whatever it contains."""
    body = "".join(_html_row(name, text) for name, text in rows)
    return f"<table><thead>{_html_row(title, subject)}</thead><tbody>{body}</tbody></table>"


def _html_row(name: str, text: str) -> str:
    """A row; its texts are on the left: JupyterLab would put them on the right, like numbers."""
    look = 'style="text-align:left"'
    return f"<tr><th {look}>{_cell(name)}</th><td {look}>{_cell(text)}</td></tr>"


def first_rows(
    rows: Sequence[tuple[str, str]], count: int | None = None, most: int = SHOWN_ROWS
) -> Iterable[tuple[str, str]]:
    """The first rows, and how many more there are of `count`, or of all rows."""
    yield from islice(rows, most)
    more = (len(rows) if count is None else count) - min(len(rows), most)
    if more > 0:
        yield "", f"and {more:,} more"


def _cell(text: str) -> str:
    short = text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
    return escape("".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in short))

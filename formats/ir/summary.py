"""A short description of a model: its types as text, and the short table that a notebook shows."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from formats.errors import FormatError
from formats.ir import dtypes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from formats.ir.model import Model, Tensor, TensorShape, Type, ValueInfo

SHOWN_OPERATORS = 8
SHOWN_VALUES = 12


def table(model: Model) -> str:
    """A table in HTML with a model's facts about itself, its inputs and outputs, operators and weights.

    Everything from the model is shown as text, whatever it contains.
    """
    try:
        rows = list(_rows(model))
    except FormatError as error:  # an undecoded list is damaged
        rows = [("damaged", str(error))]
    from formats.wording import html_tables

    return html_tables.table("Model", _name(model), rows)


def _name(model: Model) -> str:
    return (model.graph.name if model.graph else None) or ""


def _rows(model: Model) -> Iterator[tuple[str, str]]:
    producer = " ".join(filter(None, (model.producer_name, model.producer_version)))
    if producer:
        yield "producer", producer
    if model.opset_import:
        yield "operator sets", ", ".join(f"{entry.domain or 'ai.onnx'} {entry.version}" for entry in model.opset_import)
    graph = model.graph
    if graph is None:
        yield "graph", "none"
        return
    yield from _values("input", graph.input)
    yield from _values("output", graph.output)
    operators = Counter(node.op_type or "" for node in graph.node)
    most = ", ".join(f"{count} {name}" for name, count in operators.most_common(SHOWN_OPERATORS))
    yield "nodes", f"{len(graph.node)}: {most}{_more(len(operators), SHOWN_OPERATORS)}" if operators else "0"
    tensors = [tensor for _, tensor in model.tensors()]
    yield "tensors", f"{len(tensors)}, {_nbytes(tensors)} bytes"
    if model.functions:
        yield "functions", str(len(model.functions))


def _values(title: str, values: list[ValueInfo]) -> Iterator[tuple[str, str]]:
    for value in values[:SHOWN_VALUES]:
        yield title, f"{value.name}: {type_text(value.type) or '?'}"
    if more := _more(len(values), SHOWN_VALUES):
        yield title, more


def _more(count: int, shown: int) -> str:
    return f" and {count - shown} more" if count > shown else ""


def _nbytes(tensors: Iterable[Tensor]) -> int:
    """The size of the elements of these tensors in bytes, as far as their types and shapes are known."""
    rows = ((dtypes.BY_NUMBER.get(tensor.data_type or 0), tensor.dims) for tensor in tensors)
    return sum(row.nbytes(dims) for row, dims in rows if row and row.bits and min(dims, default=0) >= 0)


def type_text(value_type: Type | None) -> str:
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
        return f"seq({type_text(value_type.sequence_type.elem_type)})"
    if value_type.optional_type is not None:
        return f"optional({type_text(value_type.optional_type.elem_type)})"
    if value_type.map_type is not None:
        key = dtypes.type_name(value_type.map_type.key_type).lower()
        return f"map({key}, {type_text(value_type.map_type.value_type)})"
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

"""Checks what a model declares: its versions, the interfaces of graphs and functions, and the form of its tensors.

Spec: ONNX docs, "IR.md" and "Versioning.md"; onnx.proto.
"""

from __future__ import annotations

import struct
from collections import Counter
from typing import TYPE_CHECKING, Any

from formats.ir import FIRST_WITH_CONSTANTS, FIRST_WITH_OPERATOR_SETS, NEWEST_IR_VERSION, ONNX, dtypes
from formats.ir.model import EXTERNAL, Function, Graph, entries
from formats.ir.storage import entries_of, raw_source
from formats.onnxpb.operator_sets import newest
from formats.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formats.ir.model import Model, OperatorSetId, SparseTensor, Tensor, Type, ValueInfo

    Problem = tuple[str, str, str]

# What a type must say, by its field.
_NEEDED = {
    "tensor_type": ("elem_type",),
    "sparse_tensor_type": ("elem_type",),
    "sequence_type": ("elem_type",),
    "optional_type": ("elem_type",),
    "map_type": ("key_type", "value_type"),
}


def version_problems(model: Model) -> Iterator[Problem]:
    """What is wrong with the versions of a model, as (code, place, detail)."""
    ir_version = model.ir_version
    if not ir_version:
        yield "V201", "ir_version", "the model has no ir_version"
    elif ir_version < 0:
        yield "V201", "ir_version", f"the ir_version is {ir_version}"
    elif ir_version > NEWEST_IR_VERSION:
        detail = f"the ir_version {ir_version} is newer than {NEWEST_IR_VERSION}, the newest that is known"
        yield "V202", "ir_version", f"{detail}, so the model cannot be checked"
    elif ir_version < FIRST_WITH_OPERATOR_SETS and model.opset_import:
        yield "V203", "opset_import", f"a model of ir_version {ir_version} cannot import operator sets"
    has_nodes = model.graph is not None and entries(model.graph, "node")  # which need a set; their check reports it
    if (
        not model.opset_import
        and not has_nodes
        and (ir_version or FIRST_WITH_OPERATOR_SETS) >= FIRST_WITH_OPERATOR_SETS
    ):
        yield "V204", "opset_import", "the model imports no operator set"
    yield from _import_problems("", model.opset_import)
    for index, function in enumerate(model.functions):
        yield from _import_problems(f"functions[{index}].", function.opset_import)
    for key, count in Counter(entry.key for entry in entries(model, "metadata_props")).items():
        if count > 1:
            yield "V107", "metadata_props", f"{count:,} entries have the key {key!r:.80}"


def _import_problems(where: str, imports: Sequence[OperatorSetId]) -> Iterator[Problem]:
    """What is wrong with the versions of the operator sets that a model or function imports."""
    for index, entry in enumerate(imports):
        place, domain = f"{where}opset_import[{index}]", entry.domain or ONNX
        known = newest(domain)
        if entry.version is None or (known is not None and entry.version < 1):
            yield "V205", place, f"the version of {domain:.80} is {entry.version or 'missing'}"
        elif known is not None and entry.version > known:
            detail = f"version {entry.version} of {domain} is newer than {known}, the newest that is known"
            yield "V206", place, f"{detail}; its operators were not checked"


def part_problems(where: str, part: Graph | Function, ir_version: int) -> Iterator[Problem]:
    """What is wrong with a main graph or a function besides its nodes, as (code, place, detail)."""
    if isinstance(part, Function):
        yield from _function(where, part)
        return
    if not part.name:
        yield "V301", where, "the graph has no name"
    inputs = {value.name for value in part.input}
    for word in ("input", "output"):
        for index, value in enumerate(entries(part, word)):
            yield from _value(f"{where}.{word}[{index}]", value)
    for index, tensor in enumerate(entries(part, "initializer")):
        if not tensor.name:
            yield "V302", f"{where}.initializer[{index}]", "the initialiser has no name"
        elif ir_version < FIRST_WITH_CONSTANTS and tensor.name not in inputs:
            detail = f"{tensor.name!r:.80} is not an input, which ir_version {ir_version} requires of an initialiser"
            yield "V303", f"{where}.initializer[{index}]", detail


def subgraph_problems(
    where: str, name: str | None, inputs: Sequence[str], constants: Sequence[str], outputs: Sequence[str]
) -> Iterator[Problem]:
    """What is wrong with the names of a graph in a node; the types of its inputs and outputs may be missing."""
    if not name:
        yield "V301", where, "the graph has no name"
    if "" in constants:
        yield "V302", f"{where}.initializer[{constants.index('')}]", "the initialiser has no name"
    for word, names in (("input", inputs), ("output", outputs)):
        if "" in names:
            yield "V501", f"{where}.{word}[{names.index('')}]", "the value has no name"


def _function(where: str, function: Function) -> Iterator[Problem]:
    if not function.name:
        yield "V314", where, "the function has no name"
    if not function.domain:
        yield "V315", where, f"the function {function.name or '':.80} has no domain"
    attributes = [*function.attribute, *(attribute.name or "" for attribute in function.attribute_proto)]
    for word, names in (("inputs", function.input), ("outputs", function.output), ("attributes", attributes)):
        for name, count in Counter(names).items():
            if count > 1:
                yield "V316", where, f"{count} {word} of {function.name or '':.80} are called {name!r:.80}"


def _value(where: str, value: ValueInfo) -> Iterator[Problem]:
    """What is wrong with an input or output of the main graph."""
    if not value.name:
        yield "V501", where, "the value has no name"
    if value.type is None:
        yield "V502", where, f"{value.name!r:.80} has no type"
    else:
        yield from _type(where, value.name or "", value.type)


def _type(where: str, name: str, declared: Type) -> Iterator[Problem]:
    kind = next((field for field in declared.oneof if getattr(declared, field) is not None), None)
    if kind is None:
        yield "V503", f"{where}.type", f"the type of {name!r:.80} says nothing"
        return
    inner: Any = getattr(declared, kind)
    for field in _NEEDED.get(kind, ()):
        value = getattr(inner, field)
        if value is None:
            yield "V504", f"{where}.type.{kind}", f"the {kind} of {name!r:.80} has no {field}"
        elif value == 0:
            yield "V505", f"{where}.type.{kind}.{field}", f"the element type of {name!r:.80} is undefined"
        elif isinstance(value, int) and value not in dtypes.BY_NUMBER:
            detail = f"{name!r:.80} has {dtypes.type_name(value)}, which is unknown"
            yield "V506", f"{where}.type.{kind}.{field}", detail
    if kind not in ("tensor_type", "sparse_tensor_type"):
        return
    if inner.shape is None:
        detail = f"{name!r:.80} has no shape, but ONNX requires one; dims may have names"
        yield "V507", f"{where}.type.{kind}", detail
    else:
        for index, dim in enumerate(inner.shape.dim):
            if (dim.dim_value or 0) < 0:
                place = f"{where}.type.{kind}.shape.dim[{index}]"
                yield "V508", place, f"dim {index} of {name!r:.80} is {dim.dim_value}; a name says that it is not fixed"


def tensor_problem(tensor: Tensor) -> tuple[str, str] | None:
    """What is wrong with the fields that hold a tensor's elements, besides their size, as (code, end of a text)."""
    held = [name for name in ("raw_data", *dtypes.TYPED_FIELDS) if _has(tensor, name)]
    row = dtypes.BY_NUMBER.get(tensor.data_type or 0)
    if tensor.data_location == EXTERNAL:
        if not any(key == "location" and value for key, value in entries_of(tensor)):
            return "V602", "has external data, but no location of it"
        return ("V602", f"has external data, and data in {held[0]}") if held else None
    if len(held) > 1:
        return "V601", f"has data in {' and '.join(held)}"
    if held and row is not None and held[0] not in ("raw_data", row.field):
        return "V601", f"is {row.name}, but has its data in {held[0]}"
    if held == ["raw_data"] and row is not None and not row.bits:
        return "V601", "holds strings, but has its data in raw_data"
    return None


def _has(tensor: Tensor, name: str) -> bool:
    value = getattr(tensor, name)
    return bool(value.nbytes) if hasattr(value, "nbytes") else bool(value)


def sparse_problem(sparse: SparseTensor) -> str | None:
    """What is wrong with the parts of a sparse tensor, or with their dims."""
    values, indices, dims = sparse.values, sparse.indices, sparse.dims
    if values is None:
        return "the sparse tensor has no values"
    if len(values.dims) != 1:
        return f"the values of the sparse tensor have {counted(len(values.dims), 'dim')}, but must have one"
    if not dims:
        return "the sparse tensor has no dims"
    if indices is None:
        return "the sparse tensor has no indices" if values.dims[0] else None
    if indices.data_type != dtypes.INT64:
        return f"the indices of the sparse tensor are {dtypes.type_name(indices.data_type)}, but must be INT64"
    wanted = ([values.dims[0]], [values.dims[0], len(dims)])
    if indices.dims not in wanted:
        return (
            f"the indices of the sparse tensor have dims {indices.dims!s:.80}, but must have {wanted[0]} or {wanted[1]}"
        )
    return None


def index_problem(sparse: SparseTensor) -> str | None:
    """What is wrong with the indices of a sparse tensor whose parts fit each other; it reads them.

    Raises: FormatError if they cannot be read.
    """
    assert sparse.indices is not None
    dims, indices = sparse.dims, sparse.indices
    limits = [dtypes.count(dims)] if len(indices.dims) == 1 else dims
    before: tuple[int, ...] = ()
    row: list[int] = []
    number = 0
    for chunk in raw_source(indices).chunks():
        for (value,) in struct.iter_unpack("<q", chunk):
            if not 0 <= value < limits[len(row)]:
                return f"index {number} of the sparse tensor is {value}, but must be in 0 to {limits[len(row)] - 1}"
            row.append(value)
            if len(row) == len(limits):
                now = tuple(row)
                if before and now <= before:
                    return f"index {number} of the sparse tensor does not come after the one before; sort them"
                before, row = now, []
                number += 1
    return None

"""Operators that an older set lacks, written with others that it has, where ONNX has no definition of its own.

Spec: ONNX operators, Einsum-12, Shape-15, Trilu-14.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from formats.editing.making import make_node
from formats.ir import dtypes
from formats.ir.model import entries
from formats.ir.storage import from_numpy
from formats.onnxpb.value_types import type_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import numpy

    from formats.ir.model import Node, Tensor, Type

SET: Final = 13  # the operator set of the nodes that are written here
RANGE: Final = 11  # the first set with the operator Range
MOST_IN_GRAPH: Final = 64 << 10  # elements of a mask that becomes a constant although it could be computed
MOST: Final = 64 << 20  # elements of a mask that cannot be computed


class Written(NamedTuple):
    """Nodes and constants that do what a node does, with its names; or the reason why there are none."""

    nodes: tuple[Node, ...] = ()
    constants: tuple[Tensor, ...] = ()
    refusal: str = ""


def written(node: Node, types: Mapping[str, Type], constants: Sequence[Tensor], wanted: int) -> Written | None:
    """What does the same as a node in an operator set without its operator; `None` if nothing is known for it."""
    form = _FORMS.get(node.op_type or "")
    return None if form is None else form(node, types, {each.name or "": each for each in constants}, wanted)


def _trilu(node: Node, types: Mapping[str, Type], constants: Mapping[str, Tensor], wanted: int) -> Written:
    """A part of a matrix by a mask: a constant one if the dims are known, or one that the model computes."""
    import numpy

    data, result = node.input[0], node.output[0]
    given = types.get(data)
    row = dtypes.BY_NUMBER.get(given.tensor_type.elem_type or 0) if given is not None and given.tensor_type else None
    if given is None or row is None or row.numpy_name == "bfloat16":
        found = type_text(given)
        return Written(refusal=f"a mask needs a zero of the type of its data, which is {found or 'not known'}")
    is_upper = next((each.i for each in entries(node, "attribute") if each.name == "upper"), 1) != 0
    shift = node.input[1] if len(node.input) > 1 else ""
    rows, columns = _last_dims(given)
    is_known = rows is not None and columns is not None and (not shift or shift in constants)
    count = (rows or 0) * (columns or 0)
    if is_known and count <= (MOST_IN_GRAPH if wanted >= RANGE else MOST):
        part = numpy.triu if is_upper else numpy.tril
        k = int(constants[shift].numpy().ravel()[0]) if shift else 0
        left_out = ~part(numpy.ones((rows or 0, columns or 0), bool), k)
        made: list[Node] = []
        held = [from_numpy(left_out, "mask")]
    else:
        if wanted < RANGE:
            why = f"{count} elements" if is_known else "dims that are not known"
            return Written(refusal=f"its mask would have {why}, and no operator before version {RANGE} computes it")
        made, held = _computed_mask(data, shift, is_upper)
    if row.numpy_name == "bool":
        last = [make_node("Not", ["mask"], ["kept"]), make_node("And", [data, "kept"], [result])]
    else:
        zero = numpy.array("", "object") if row.numpy_name == "object" else numpy.zeros((), row.numpy_name)
        held.append(from_numpy(zero, "zero"))
        last = [make_node("Where", ["mask", "zero", data], [result])]
    return Written((*made, *last), tuple(held))


def _computed_mask(data: str, shift: str, is_upper: bool) -> tuple[list[Node], list[Tensor]]:
    """Nodes that compute which elements a Trilu leaves out, by the numbers of their rows and columns."""
    import numpy

    def number(value: int | list[int], name: str) -> Tensor:
        array: numpy.ndarray = numpy.array(value, "int64")
        return from_numpy(array, name)

    held = [number(-2, "row_axis"), number(-1, "column_axis"), number(0, "start"), number(1, "step")]
    held.append(number([-1, 1], "upright"))
    nodes = [make_node("Shape", [data], ["shape"])]
    for word in ("row", "column"):
        nodes.append(make_node("Gather", ["shape", f"{word}_axis"], [f"{word}_count"]))
        nodes.append(make_node("Range", ["start", f"{word}_count", "step"], [f"{word}s"]))
    nodes.append(make_node("Reshape", ["rows", "upright"], ["upright_rows"]))
    if shift:
        nodes.append(make_node("Add", ["upright_rows", shift], ["first"]))
    edge = "first" if shift else "upright_rows"
    nodes.append(make_node("Less", ["columns", edge] if is_upper else [edge, "columns"], ["mask"]))
    return nodes, held


def _last_dims(given: Type) -> tuple[int | None, int | None]:
    """The last two dims of a type, as far as they are known."""
    shape = given.tensor_type.shape if given.tensor_type is not None else None
    if shape is None or len(shape.dim) < 2:
        return None, None
    rows, columns = shape.dim[-2:]
    return rows.dim_value, columns.dim_value


def _shape(node: Node, types: Mapping[str, Type], constants: Mapping[str, Tensor], wanted: int) -> Written:
    """Some dims of a value: a slice of all of them, which counts and limits its ends as Shape does."""
    import numpy

    ends = {each.name: each.i or 0 for each in entries(node, "attribute")}
    first, last = ends.get("start", 0), ends.get("end", numpy.iinfo("int64").max)
    held = (from_numpy(numpy.array([first]), "first"), from_numpy(numpy.array([last]), "last"))
    nodes = (make_node("Shape", [node.input[0]], ["dims"]), make_node("Slice", ["dims", "first", "last"], node.output))
    return Written(nodes, held)


def _einsum(node: Node, types: Mapping[str, Type], constants: Mapping[str, Tensor], wanted: int) -> Written:
    """A product of two tensors as a MatMul, where each side has at most one axis of its own."""
    equation = next((each.s for each in entries(node, "attribute") if each.name == "equation"), None) or b""
    terms, arrow, result = equation.decode(errors="replace").replace(" ", "").partition("->")
    sides = terms.split(",")
    if not arrow or len(sides) != 2 or len(node.input) != 2:
        return Written(refusal="only an equation of two inputs with `->` can be written as a MatMul")
    left, right = sides
    if not all(len(set(each)) == len(each) and "." not in each for each in (left, right, result)):
        return Written(refusal="an equation with an ellipsis or with one letter twice is no MatMul")
    batch = "".join(each for each in result if each in left and each in right)
    summed = "".join(each for each in left if each in right and each not in result)
    rows, columns = ("".join(each for each in side if each not in batch + summed) for side in sides)
    if len(summed) != 1 or len(rows) > 1 or len(columns) > 1 or set(rows + columns) - set(result):
        return Written(refusal=f"a MatMul sums over one axis and has one more on each side, not {terms}->{result}")
    if set(batch + rows + columns) != set(result):
        return Written(refusal=f"the result of {terms}->{result} has a letter that no input has")
    held: list[Tensor] = []
    nodes: list[Node] = []
    for word, side, order, gap in (
        ("left", left, batch + rows + summed, 0 if rows else -2),
        ("right", right, batch + summed + columns, 0 if columns else -1),
    ):
        perm = [side.index(each) for each in order]
        nodes.append(make_node("Transpose", [node.input[word == "right"]], [f"{word}_turned"], perm=perm))
        nodes += _with_axis(f"{word}_turned", f"{word}_matrix", len(order), gap, held)
    made = batch + rows + columns
    nodes.append(make_node("MatMul", ["left_matrix", "right_matrix"], ["product"]))
    missing = [axis for axis, letters in ((-2, rows), (-1, columns)) if not letters]
    at = "product"
    if missing:
        held.append(_axes([len(batch) + 2 + axis for axis in missing], "missing_axes"))
        nodes.append(make_node("Squeeze", ["product", "missing_axes"], ["squeezed"]))
        at = "squeezed"
    perm = [made.index(each) for each in result]
    nodes.append(
        make_node("Transpose", [at], node.output, perm=perm) if perm else make_node("Identity", [at], node.output)
    )
    return Written(tuple(nodes), tuple(held))


def _with_axis(name: str, new: str, rank: int, gap: int, held: list[Tensor]) -> list[Node]:
    """A node that gives a value an axis of size one at `gap`, counted from the end; 0 means that it has all axes."""
    if not gap:
        return [make_node("Identity", [name], [new])]
    held.append(_axes([rank + 1 + gap], f"{new}_axis"))
    return [make_node("Unsqueeze", [name, f"{new}_axis"], [new])]


def _axes(numbers: list[int], name: str) -> Tensor:
    import numpy

    return from_numpy(numpy.array(numbers, "int64"), name)


_FORMS: Final[Mapping[str, Callable[[Node, Mapping[str, Type], Mapping[str, Tensor], int], Written]]] = {
    "Einsum": _einsum,
    "Shape": _shape,
    "Trilu": _trilu,
}
WRITTEN: Final = frozenset(_FORMS)

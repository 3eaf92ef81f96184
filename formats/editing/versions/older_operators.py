"""Operators that an older set lacks, written with others that it has, where ONNX has no definition of its own.

Spec: ONNX operators, Einsum-12, Trilu-14, Resize-10 and ScatterElements-11.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple

from formats.editing.versions.node_forms import NoFormError
from formats.editing.versions.rewritings import INDICES
from formats.ir import dtypes
from formats.onnxpb.value_types import operator_type_text
from formats.tensordata.plan import RARE

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeAlias

    from formats.editing.versions.node_forms import LoneNode, NodeForm

    OlderRewriting: TypeAlias = Callable[[LoneNode, NodeForm, int], None]


RANGE: Final = 11  # the first set with the operator Range
MOST_IN_GRAPH: Final = 64 << 10  # elements of a mask that becomes a constant although it could be computed
MOST: Final = 64 << 20  # elements of a mask that cannot be computed


def trilu(old: LoneNode, new: NodeForm, wanted: int) -> None:
    """A part of a matrix by a mask: a constant one if the dims are known, or one that the model computes."""
    import numpy

    data, shift = old.input(0), old.input(1)
    row = old.elem_type(data)
    if row is None or row.numpy_name == "bfloat16":
        kind = operator_type_text(old.types.get(data))
        raise NoFormError(f"a mask needs a zero of the type of its data, which is {kind or 'not known'}")
    is_upper = old.value("upper", 1) != 0
    rows, columns = [None, None, *(old.dims(data) or ())][-2:]
    is_known = rows is not None and columns is not None and (not shift or shift in old.constants)
    count = (rows or 0) * (columns or 0)
    if is_known and count <= (MOST_IN_GRAPH if wanted >= RANGE else MOST):
        part = numpy.triu if is_upper else numpy.tril
        diagonal = old.constant(shift)
        k = 0 if diagonal is None else int(diagonal.ravel()[0])
        mask = new.constant(~part(numpy.ones((rows or 0, columns or 0), bool), k), dtypes.BOOL, "mask")
    elif wanted < RANGE:
        why = f"{count} elements" if is_known else "dims that are not known"
        raise NoFormError(f"its mask would have {why}, and no operator before version {RANGE} computes it")
    else:
        mask = _computed_mask(data, shift, new, is_upper=is_upper)
    if row.numpy_name == "bool":
        new.add("Not", [mask], "kept")
        new.add("And", [data, "kept"], old.output(0))
    else:
        zero = new.constant("" if row.number == dtypes.STRING else 0, row.number, "zero")
        new.add("Where", [mask, zero, data], old.output(0))


def _computed_mask(data: str, shift: str, new: NodeForm, *, is_upper: bool) -> str:
    """Nodes that compute which elements a Trilu leaves out, by the numbers of their rows and columns."""
    start, step = new.integers(0, "start"), new.integers(1, "step")
    new.add("Shape", [data], "shape")
    for word, axis in (("row", -2), ("column", -1)):
        new.add("Gather", ["shape", new.integers(axis, f"{word}_axis")], f"{word}_count")
        new.add("Range", [start, f"{word}_count", step], f"{word}s")
    edge = new.add("Reshape", ["rows", new.integers([-1, 1], "upright")], "upright_rows")
    if shift:
        edge = new.add("Add", ["upright_rows", shift], "first")
    return new.add("Less", ["columns", edge] if is_upper else [edge, "columns"], "mask")


class _Product(NamedTuple):
    """The equation of an Einsum that is a MatMul, by the letters of its axes."""

    sides: list[str]  # the two inputs
    result: str
    batch: str  # axes of both sides and of the result
    rows: str  # the axis that only the left side has, or none
    columns: str  # the axis that only the right side has, or none
    summed: str


def einsum(old: LoneNode, new: NodeForm, wanted: int) -> None:
    """A product of two tensors as a MatMul, where each side has at most one axis of its own."""
    sides, result, batch, rows, columns, summed = _as_product(str(old.value("equation", "")), len(old.node.input))
    # batch, rows, summed x batch, summed, columns -> batch, rows, columns; an axis that a side lacks has size one
    for index, (word, letters, missing) in enumerate(
        (
            ("left", batch + rows + summed, [] if rows else [-2]),
            ("right", batch + summed + columns, [] if columns else [-1]),
        )
    ):
        name, perm = old.input(index), [sides[index].index(letter) for letter in letters]
        new.add("Transpose", [name], f"{word}_turned", like=name, perm=perm)
        _with_axes("Unsqueeze", f"{word}_turned", f"{word}_matrix", [len(letters) + 1 + axis for axis in missing], new)
    new.add("MatMul", ["left_matrix", "right_matrix"], "product", like=old.input(0))
    missing = [axis for axis, letters in ((-2, rows), (-1, columns)) if not letters]
    _with_axes("Squeeze", "product", "squeezed", [len(batch) + 2 + axis for axis in missing], new)
    perm = [(batch + rows + columns).index(letter) for letter in result]
    new.add("Transpose" if perm else "Identity", ["squeezed"], old.output(0), perm=perm or None)


def _as_product(equation: str, inputs: int) -> _Product:
    """The equation of an Einsum with this number of inputs. Raises: NoFormError if it is no MatMul."""
    terms, arrow, result = equation.replace(" ", "").partition("->")
    sides = terms.split(",")
    if not arrow or len(sides) != 2 or inputs != 2:
        raise NoFormError("only an equation of two inputs with `->` can be written as a MatMul")
    left, right = sides
    if not all(len(set(letters)) == len(letters) and "." not in letters for letters in (left, right, result)):
        raise NoFormError("an equation with an ellipsis or with one letter twice is no MatMul")
    batch = "".join(letter for letter in result if letter in left and letter in right)
    summed = "".join(letter for letter in left if letter in right and letter not in result)
    rows, columns = ("".join(letter for letter in side if letter not in batch + summed) for side in sides)
    if len(summed) != 1 or len(rows) > 1 or len(columns) > 1 or set(rows + columns) - set(result):
        raise NoFormError(f"a MatMul sums over one axis and has one more on each side, not {terms}->{result}")
    if set(batch + rows + columns) != set(result):
        raise NoFormError(f"the result of {terms}->{result} has a letter that no input has")
    return _Product(sides, result, batch, rows, columns, summed)


def _with_axes(operator: str, name: str, result: str, axes: list[int], new: NodeForm) -> None:
    """A value with axes of size one added or taken away."""
    if axes:
        new.add(operator, [name, new.integers(axes, f"{result}_axes")], result, like=name)
    else:
        new.add("Identity", [name], result, like=name)


def resize(old: LoneNode, new: NodeForm, wanted: int) -> None:
    """A Resize that makes nothing smaller is an Upsample."""
    scales = old.constant(old.input(1))
    if scales is None or (scales < 1).any():
        raise NoFormError("before version 10, only Upsample changes sizes, which makes nothing smaller")
    new.keep(op_type="Upsample")


def scatter_elements(old: LoneNode, new: NodeForm, wanted: int) -> None:
    """ScatterElements had another name, and no negative indices."""
    indices = old.constant(old.input(1))
    if indices is None or (indices < 0).any():
        new.tell(INDICES.format(old.operator), RARE)
    new.keep(op_type="Scatter")


# The operators, and the set of the nodes that each is written with.
OLDER: Final[dict[str, tuple[int, OlderRewriting]]] = {
    "Einsum": (13, einsum),
    "Resize": (9, resize),
    "ScatterElements": (10, scatter_elements),
    "Trilu": (13, trilu),
}

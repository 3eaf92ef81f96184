"""How the dims of an operator's outputs follow from its inputs: one function a class of operators.

Each takes the node, the scope that it stands in and the types of its inputs, and gives the dims of the outputs in
order; what is missing at the end, or `None`, is unknown. A dimension is a size, a name that stands for one size in
the whole model, or `None`. The functions know the newest form of each operator only, and may raise any LookupError,
TypeError, ValueError or ArithmeticError for a node that is not well formed: `infer.py` takes that as "unknown".
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from formats.rten.convert.value_types import Dim, Dims, ValueType
from formats.rten.graph.attributes import get_int, get_ints, get_string

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from formats.ir.model import Node
    from formats.rten.convert.scope import Scope


MAX_RANK = 64  # tensors of more axes are no tensors

if TYPE_CHECKING:
    DimsRule = Callable[[Node, Scope, list[ValueType]], Sequence[Dims | None]]


def unknown(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Nothing."""
    return []


def scalar(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """No dims at all."""
    return [()]


def same(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The first output has the dims of the first input."""
    return [types[0].dims]


def same_all(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Every output has the dims of the first input."""
    return [types[0].dims] * len(node.output)


def like_second(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims of the second input."""
    return [types[1].dims]


def broadcast_dims(first: Dims | None, second: Dims | None) -> Dims | None:
    """The dims of two values broadcast together."""
    if first == second:
        return first
    if first is None or second is None:
        return None
    if len(first) < len(second):
        first, second = second, first
    lead = len(first) - len(second)
    return first[:lead] + tuple(map(_broadcast_dim, first[lead:], second))


def _broadcast_dim(a: Dim, b: Dim) -> Dim:
    if a == b:
        return a
    if a == 1:
        return b
    if b == 1:
        return a
    if isinstance(a, int):
        return a
    return b if isinstance(b, int) else None


def broadcast(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims of all inputs broadcast together."""
    dims = types[0].dims
    for other in types[1:]:
        dims = broadcast_dims(dims, other.dims)
    return [dims]


def unknown_dims(rank: Dim) -> Dims | None:
    """Dims of which only the number is known, if that is a plausible one."""
    return (None,) * rank if isinstance(rank, int) and 0 <= rank <= MAX_RANK else None


def normalize(axis: int, rank: int) -> int:
    """The axis counted from the front.

    Raises: IndexError where there is no such axis.
    """
    if not -rank <= axis < rank:
        raise IndexError(axis)
    return axis % rank if rank else 0


def multiply(factors: Sequence[Dim]) -> Dim:
    """The product of dimensions: a size, a name where that is all there is but ones, or unknown."""
    names = [factor for factor in factors if not isinstance(factor, int)]
    size = prod(factor for factor in factors if isinstance(factor, int))
    if not names or size == 0:
        return size
    return names[0] if len(names) == 1 and size == 1 else None


def matmul(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Rows of the first, columns of the second, and the leading dims broadcast."""
    a, b = types[0].dims, types[1].dims
    if a is None or b is None or not a or not b:
        return []
    batch = broadcast_dims(a[:-2], b[:-2])
    return [None if batch is None else batch + a[-2:-1] + (b[-1:] if len(b) > 1 else ())]


def gemm(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Rows of the first matrix, columns of the second."""
    a, b = types[0].dims, types[1].dims
    rows = a[1 if get_int(node, "transA") else 0] if a else None
    columns = b[0 if get_int(node, "transB") else 1] if b else None
    return [(rows, columns)]


def transpose(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims in the order of `perm`, or reversed."""
    dims = types[0].dims
    perm = get_ints(node, "perm")
    if dims is None:
        return [(None,) * len(perm)] if perm else []
    return [dims[::-1] if perm is None else tuple(dims[axis] for axis in perm)]


def gather(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The gathered axis is replaced by the dims of the indices."""
    data, indices = types[0].dims, types[1].dims
    if data is None or indices is None:
        return []
    axis = normalize(get_int(node, "axis"), len(data))
    return [data[:axis] + indices + data[axis + 1 :]]


def gather_nd(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The leading dims of the indices, then what an index leaves of the data."""
    data, indices = types[0].dims, types[1].dims
    if data is None or indices is None or not isinstance(indices[-1], int):
        return []
    return [indices[:-1] + data[get_int(node, "batch_dims") + indices[-1] :]]


def reduced(dims: Dims | None, axes: Sequence[int] | None, keep: int) -> Dims | None:
    """What is left of `dims` when `axes` are reduced; `None` for axes that are not known."""
    if dims is None:
        return None
    if axes is None:
        return (None,) * len(dims) if keep else None
    gone = {normalize(axis, len(dims)) for axis in axes}
    if keep:
        return tuple(1 if axis in gone else dim for axis, dim in enumerate(dims))
    return tuple(dim for axis, dim in enumerate(dims) if axis not in gone)


def reduce(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims without the reduced axes, or with 1 in their place."""
    dims = types[0].dims
    keep = get_int(node, "keepdims", 1)
    axes = scope.ints(node.input[1]) if len(node.input) > 1 and node.input[1] else ()
    if axes is not None and not axes:
        if get_int(node, "noop_with_empty_axes"):
            return [dims]
        axes = tuple(range(len(dims or ())))
        if dims is None and not keep:
            return [()]
    return [reduced(dims, axes, keep)]


def arg_reduce(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """One axis is reduced."""
    return [reduced(types[0].dims, [get_int(node, "axis")], get_int(node, "keepdims", 1))]


def concat(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The sizes of one axis added up, the other dims merged from all inputs."""
    known = [entry.dims for entry in types if entry.dims is not None]
    if not known:
        return []
    axis = normalize(get_int(node, "axis"), len(known[0]))
    merged = list(known[0])
    for dims in known[1:]:
        for place, dim in enumerate(dims):
            if isinstance(dim, int) or merged[place] is None:
                merged[place] = dim
    sizes = [None if entry.dims is None else entry.dims[axis] for entry in types]
    merged[axis] = sum(size for size in sizes if isinstance(size, int))
    if any(not isinstance(size, int) for size in sizes):
        merged[axis] = sizes[0] if len(sizes) == 1 else None
    return [tuple(merged)]


def reshape(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims that the second input asks for, with 0 copied and -1 computed."""
    source, target = types[0].dims, scope.contents_of(node.input[1])
    if target is None:
        return [unknown_dims((types[1].dims or (None,))[0])]
    if not get_int(node, "allowzero"):
        target = tuple((source[place] if source else None) if dim == 0 else dim for place, dim in enumerate(target))
    if -1 not in target:
        return [target]
    missing = target.index(-1)
    return [(*target[:missing], _remainder(source, target), *target[missing + 1 :])]


def _remainder(source: Dims | None, target: Dims) -> Dim:
    """The size that -1 stands for: everything of `source` that `target` does not name otherwise."""
    if source is None:
        return None
    left, right = list(source), [dim for dim in target if dim != -1]
    for name in [dim for dim in left if isinstance(dim, str)]:
        if name in right:
            left.remove(name)
            right.remove(name)
    if any(not isinstance(dim, int) for dim in right):
        return None
    total, divisor = multiply(left), multiply(right)
    if isinstance(total, int) and isinstance(divisor, int) and divisor:
        return total // divisor
    names = [dim for dim in left if not isinstance(dim, int)]
    same_size = prod(dim for dim in left if isinstance(dim, int)) == divisor
    return names[0] if len(names) == 1 and same_size else None


def flatten(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Two dims: the product before the axis and that from it on."""
    dims = types[0].dims
    if dims is None:
        return [(None, None)]
    axis = get_int(node, "axis", 1)
    axis = axis + len(dims) if axis < 0 else axis
    return [(multiply(dims[:axis]), multiply(dims[axis:]))]


def squeeze(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims without the given axes, or without all ones."""
    dims = types[0].dims
    if dims is None:
        return []
    if len(node.input) < 2 or not node.input[1]:
        return [tuple(dim for dim in dims if dim != 1)] if all(isinstance(d, int) for d in dims) else []
    axes = scope.ints(node.input[1])
    return [] if axes is None else [reduced(dims, axes, keep=0)]


def unsqueeze(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims with ones inserted, at axes of the output."""
    dims, axes = types[0].dims, scope.ints(node.input[1])
    if dims is None or axes is None:
        return []
    rank = len(dims) + len(axes)
    ones = {normalize(axis, rank) for axis in axes}
    rest = iter(dims)
    return [tuple(1 if axis in ones else next(rest) for axis in range(rank))]


def expand(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims of the input and those asked for, broadcast."""
    target = scope.contents_of(node.input[1])
    if target is None:
        return [broadcast_dims(types[0].dims, unknown_dims((types[1].dims or (None,))[0]))]
    return [broadcast_dims(types[0].dims, target)]


def constant_of_shape(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims that the input asks for."""
    target = scope.contents_of(node.input[0])
    if target is None:
        return [unknown_dims((types[0].dims or (None,))[0])]
    return [target]


def tile(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Each dim times its repeats."""
    dims, repeats = types[0].dims, scope.contents_of(node.input[1])
    if dims is None:
        return []
    if repeats is None:
        return [(None,) * len(dims)]
    return [tuple(map(_times, dims, repeats))]


def _times(dim: Dim, factor: Dim) -> Dim:
    return multiply((dim, factor))


def slice_(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The lengths of the slices; an axis that is not known to be untouched becomes unknown."""
    dims = types[0].dims
    if dims is None:
        return []
    starts, ends, axes, steps = (_slice_input(node, scope, place) for place in range(1, 5))
    if starts is None or ends is None or axes is None or steps is None:
        return [(None,) * len(dims)]
    result = list(dims)
    for place, axis in enumerate(axes or range(len(starts))):
        number = normalize(axis, len(dims))
        dim, step = dims[number], steps[place] if steps else 1
        result[number] = _slice_length(dim, starts[place], ends[place], step)
    return [tuple(result)]


def _slice_input(node: Node, scope: Scope, place: int) -> tuple[int, ...] | None:
    name = node.input[place] if place < len(node.input) else ""
    return scope.ints(name) if name else ()


def _slice_length(dim: Dim, start: int, end: int, step: int) -> Dim:
    if isinstance(dim, int):
        return len(range(dim)[start:end:step])
    return dim if (start, step) == (0, 1) and end >= 2**31 - 1 else None


def split(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The sizes asked for along one axis."""
    dims = types[0].dims
    if dims is None:
        return []
    axis = normalize(get_int(node, "axis"), len(dims))
    sizes = scope.contents_of(node.input[1]) if len(node.input) > 1 and node.input[1] else None
    if sizes is None or len(sizes) != len(node.output):
        sizes = (None,) * len(node.output)
    return [(*dims[:axis], size, *dims[axis + 1 :]) for size in sizes]


def pad(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Each dim with its two pads added."""
    dims = types[0].dims
    if dims is None:
        return []
    pads = scope.ints(node.input[1])
    if pads is None or len(pads) != 2 * len(dims) or (len(node.input) > 3 and node.input[3]):
        return [(None,) * len(dims)]
    totals = [pads[axis] + pads[axis + len(dims)] for axis in range(len(dims))]
    return [tuple(_plus(dim, total) for dim, total in zip(dims, totals, strict=True))]


def _plus(dim: Dim, more: int) -> Dim:
    if isinstance(dim, int):
        return dim + more
    return dim if more == 0 else None


def top_k(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The axis becomes k long, in both outputs."""
    dims = types[0].dims
    if dims is None:
        return []
    axis = normalize(get_int(node, "axis", -1), len(dims))
    count = (scope.contents_of(node.input[1]) or (None,))[0]
    return [(*dims[:axis], count, *dims[axis + 1 :])] * 2


def one_hot(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The depth is inserted at the axis."""
    dims = types[0].dims
    if dims is None:
        return []
    axis = normalize(get_int(node, "axis", -1), len(dims) + 1)
    depth = (scope.contents_of(node.input[1]) or (None,))[0]
    return [(*dims[:axis], depth, *dims[axis:])]


def shape(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """One dim: how many axes are asked for."""
    dims = types[0].dims
    if dims is None:
        return [(None,)]
    end = get_int(node, "end", len(dims))
    return [(len(range(len(dims))[get_int(node, "start") : end]),)]


def non_zero(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The rank, by a number that only running tells."""
    dims = types[0].dims
    return [(None if dims is None else len(dims), None)]


def arange(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """One dim; its size where the bounds are known."""
    bounds = [scope.contents_of(name) for name in node.input]
    if all(bound and isinstance(bound[0], int) for bound in bounds):
        start, limit, delta = (bound[0] for bound in bounds if bound)
        return [(len(range(start, limit, delta)),)]  # type: ignore[arg-type]
    first, last, step = bounds
    return [((last or (None,))[0] if (first, step) == ((0,), (1,)) else None,)]


def einsum(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims of the letters after the arrow."""
    left, arrow, right = get_string(node, "equation").replace(" ", "").partition("->")
    if not arrow or "." in left:
        return []
    sizes: dict[str, Dim] = {}
    for term, entry in zip(left.split(","), types, strict=True):
        for letter, dim in zip(term, entry.dims or (None,) * len(term), strict=True):
            if dim is not None and dim != 1:
                sizes[letter] = dim
            else:
                sizes.setdefault(letter, dim)
    return [tuple(sizes[letter] for letter in right)]


def dynamic_quantize(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The input's dims, and two scalars."""
    return [types[0].dims, (), ()]


def non_max_suppression(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Rows of three."""
    return [(None, 3)]


def joined(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Of a sequence, what all its tensors have in common; the first two inputs, or all of them, are in it."""
    known = types[:2] if node.op_type == "SequenceInsert" else types
    first, *rest = (entry.dims for entry in known)
    for other in rest:
        if first is None or other is None or len(first) != len(other):
            return []
        first = tuple(a if a == b else None for a, b in zip(first, other, strict=True))
    return [first]


def split_to_sequence(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims with parts of an unknown size along one axis, or without that axis."""
    dims = types[0].dims
    if dims is None:
        return []
    axis = normalize(get_int(node, "axis"), len(dims))
    is_split = len(node.input) > 1 and node.input[1]
    kept = (None,) if is_split or get_int(node, "keepdims", 1) else ()
    return [(*dims[:axis], *kept, *dims[axis + 1 :])]


def concat_from_sequence(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims of the tensors, with an unknown number along the axis, or in a new one."""
    dims, is_new = types[0].dims, get_int(node, "new_axis")
    if dims is None:
        return []
    axis = normalize(get_int(node, "axis"), len(dims) + (1 if is_new else 0))
    return [(*dims[:axis], None, *dims[axis if is_new else axis + 1 :])]


def random_shape(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims in the attribute."""
    return [tuple(get_ints(node, "shape") or ())]

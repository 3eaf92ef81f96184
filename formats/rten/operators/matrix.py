"""Products of matrices, and determinants."""

from __future__ import annotations

from functools import reduce
from math import prod

from formats.ir.attributes import attribute_named, get_int, get_string
from formats.ir.dtypes import INT32
from formats.ir.model import Node
from formats.rten.convert.context import Context
from formats.rten.convert.refusal import Refused
from formats.rten.convert.scope import Scope
from formats.rten.convert.value_types import Dim, Dims, ValueType
from formats.rten.graph.attributes import with_fields
from formats.rten.graph.makers import Makers
from formats.rten.operators import ranges
from formats.rten.operators.rules import broadcast_dims, dropped, of_any_input, without_gaps
from formats.rten.spec import Deviation, Field, Folding, OperatorSpec, Outputs, Row, ToOnnx, ToRten, because
from formats.rten.target import Fault
from formats.tensordata.plan import RESULTS


def matmul_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Rows of the first, columns of the second, and the leading dims broadcast."""
    a, b = types[0].dims, types[1].dims
    if a is None or b is None or not a or not b:
        return []
    batch = broadcast_dims(a[:-2], b[:-2])  # of ..., m, k and ..., k, n
    return [None if batch is None else batch + a[-2:-1] + (b[-1:] if len(b) > 1 else ())]


_LONE_COLUMN = Fault("keeps an axis of size one when it multiplies several matrices with a vector")
_LONE_COLUMN_DEVIATION = Deviation(_LONE_COLUMN.sentence, RESULTS)


def _by_anything(context: Context, a: str, b: str) -> list[Node]:
    """The product with a value that may be a vector: RTen then makes a last dim that the result must not have."""
    op = context.op
    same = context.scope.add_safe(_LONE_COLUMN, op("Identity", b))
    product = context.copy([a, same, *context.node.input[2:]])
    # If b is a vector, the result has one axis less than a. Otherwise, it has the axes that the product has.
    all_dims = [op("Shape", name) for name in (a, b, product)]
    ranks = [op("Shape", dims) for dims in all_dims]  # a vector of one each
    one = context.int64([1])
    end = op("Where", op("Equal", ranks[1], one), op("Sub", ranks[0], one), ranks[2])
    target = op("Slice", all_dims[2], [0], end)
    return context.replace(op("Reshape", product, target, allowzero=1))


def by_vector(node: Node, context: Context) -> list[Node] | None:
    """RTen leaves the axis of a vector in the result: of a stack of matrices with one, of one with no columns."""
    op = context.op
    a, b = context.input(0), context.input(1)
    rank, columns = context.rank(a), context.dims(b)
    if rank == 1 and columns is not None and len(columns) > 1 and not (isinstance(columns[-1], int) and columns[-1]):
        row = op("Unsqueeze", a, [0])  # 1, k
        return context.replace(op("Squeeze", context.copy([row, b, *node.input[2:]]), [-2]))
    rows = (context.dims(a) or (1,))[0]
    if rank is not None and (rank < 2 or (rank == 2 and isinstance(rows, int) and rows)):
        return None
    if context.rank(b) is None and not context.scope.is_safe(_LONE_COLUMN, b):
        return _by_anything(context, a, b)
    if context.rank(b) != 1:
        return None
    column = op("Unsqueeze", b, [1])  # k, 1
    return context.replace(op("Squeeze", context.copy([a, column, *node.input[2:]]), [-1]))


@because("RTen's MatMul is only for floats, so integers become products and sums")
def mat_mul(node: Node, context: Context) -> list[Node] | None:
    op = context.op
    a, b = context.input(0), context.input(1)
    if not context.is_integer(a):
        return by_vector(node, context)
    if not context.known_rank(a) or not context.known_rank(b):
        raise Refused("multiplies scalars, which MatMul does not define")
    rows, columns = context.known_rank(a) > 1, context.known_rank(b) > 1
    last = context.int64([-1])
    left = op("Unsqueeze", a, last)  # ..., m, k, 1
    if not rows:
        left = op("Unsqueeze", left, [0])
    right = b if columns else op("Unsqueeze", b, last)
    right = op("Unsqueeze", right, [-3])  # ..., 1, k, n
    total = op("ReduceSum", op("Mul", left, right), [-2], keepdims=0)  # ..., m, n
    squeezed_axes = [-1] * (not columns) + [-2] * (not rows)
    return context.replace(op("Squeeze", total, context.int64(squeezed_axes)) if squeezed_axes else total)


def integer_product(node: Node, makers: Makers) -> Node | None:
    """MatMul of integers, from the products and the sum that it was written with."""
    squeezed = makers.match(node, "Squeeze", "ReduceSum")  # after a product with a vector
    total = squeezed[0] if squeezed else node
    squeezed_axes = (makers.integers(node.input[1]) if squeezed and len(node.input) > 1 else []) or []
    terms = makers.match(total, "ReduceSum", "Mul")  # of ..., m, k, n the sum over k
    if (
        terms is None
        or len(total.input) < 2
        or makers.integers(total.input[1]) != [-2]
        or get_int(total, "keepdims", 1)
    ):
        return None
    sides = makers.match(terms[0], "Mul", "Unsqueeze", "Unsqueeze")
    if sides is None or [makers.integers(side.input[1]) for side in sides] != [
        [0 if -2 in squeezed_axes else -1],
        [-3],
    ]:
        return None
    a, b = (side.input[0] for side in sides)
    if -2 in squeezed_axes:
        row = makers.maker(a, "Unsqueeze")  # a vector on the left became a row
        a = row.input[0] if row is not None and makers.integers(row.input[1]) == [-1] else ""
    if -1 in squeezed_axes:
        column = makers.maker(b, "Unsqueeze")  # a vector on the right became a column
        b = column.input[0] if column is not None and makers.integers(column.input[1]) == [-1] else ""
    if not a or not b or not set(squeezed_axes) <= {-1, -2} or INT32 not in (makers.elem_type(a), makers.elem_type(b)):
        return None
    return with_fields(node, op_type="MatMul", input=[a, b], attribute=[])


def _product_deviations(node: Node, context: Context) -> tuple[Deviation, ...]:
    if context.rank(node.input[1]) == 1 and context.rank(node.input[0]) not in (1, 2):
        return (_LONE_COLUMN_DEVIATION,)
    return ()


MatMul = OperatorSpec(
    "MatMul",
    Outputs(matmul_dims, of_any_input, range=ranges.matrix_products),
    ToRten(Row(2), rewritings=(mat_mul,), is_plain=True, faults=(_LONE_COLUMN,)),
    ToOnnx("N", "N", foldings=(Folding(("ReduceSum", "Squeeze"), integer_product),), deviations=_product_deviations),
)


def gemm_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """Rows of the first matrix, columns of the second."""
    a, b = types[0].dims, types[1].dims
    rows = a[1 if get_int(node, "transA") else 0] if a else None
    columns = b[0 if get_int(node, "transB") else 1] if b else None
    return [(rows, columns)]


@because("RTen's Gemm is only for floats, so integers need a MatMul and an Add")
def gemm(node: Node, context: Context) -> list[Node] | None:
    op = context.op
    a, b, c = context.input(0), context.input(1), context.optional(2)
    if not context.is_integer(a):
        return None
    for name in ("alpha", "beta"):
        attribute = attribute_named(node, name)
        if attribute is not None and attribute.f != 1:
            raise Refused(f"scales integers ({name} = {attribute.f}), which cannot be converted")
    left = op("Transpose", a, perm=[1, 0]) if get_int(node, "transA") else a
    right = op("Transpose", b, perm=[1, 0]) if get_int(node, "transB") else b
    product = op("MatMul", left, right)
    return context.replace(op("Add", product, c) if c else product)


Gemm = OperatorSpec(
    "Gemm",
    Outputs(gemm_dims, of_any_input),
    ToRten(
        Row(
            3,
            1,
            "GemmAttrs",
            (
                Field("alpha", float, 1.0),
                Field("beta", float, 1.0),
                Field("transpose_a", bool, 0, "transA"),
                Field("transpose_b", bool, 0, "transB"),
            ),
        ),
        older=(dropped("broadcast"),),
        rewritings=(gemm,),
        is_plain=True,
    ),
    ToOnnx("N", "N"),
)


def einsum_dims(node: Node, scope: Scope, types: list[ValueType]) -> list[Dims | None]:
    """The dims of the letters after the arrow."""
    left, arrow, right = get_string(node, "equation").replace(" ", "").partition("->")
    if not arrow or "." in left:
        return []
    sizes: dict[str, Dim] = {}  # by letter: a known dim other than 1 counts, because 1 is broadcast to it
    for term, entry in zip(left.split(","), types, strict=True):
        for letter, dim in zip(term, entry.dims or (None,) * len(term), strict=True):
            if dim is not None and dim != 1:
                sizes[letter] = dim
            else:
                sizes.setdefault(letter, dim)  # 1 or unknown, until another term knows more
    return [tuple(sizes[letter] for letter in right)]


MAX_PRODUCTS = 1 << 22  # numbers that an Einsum of integers may make before it adds them


@because("RTen's Einsum is only for floats, so that of integers becomes MatMul, or products and their sums")
def einsum(node: Node, context: Context) -> list[Node] | None:
    if not any(context.is_integer(name) for name in node.input):
        return None
    left, arrow, result = get_string(node, "equation").replace(" ", "").partition("->")
    terms = left.split(",")
    if not arrow:
        result = "".join(sorted(letter for letter in {*left} - {","} if left.count(letter) == 1))
    if "." in left or any(len({*term}) < len(term) for term in terms) or len({*result}) < len(result):
        remedy = "write it without an ellipsis and without a letter twice, or cast the inputs to FLOAT"
        raise Refused(f"multiplies integers by the equation {get_string(node, 'equation')!r:.80}", remedy)
    summed = [letter for letter in dict.fromkeys(left) if letter not in ("," + result)]
    if len(terms) == 2 and (product := _matrix_product(node, context, terms, result, summed)):
        return context.replace(product)
    sizes = {letter: size for term, name in zip(terms, node.input, strict=True)
             for letter, size in zip(term, context.dims(name) or (), strict=False)}  # fmt: skip
    known_sizes = [size for size in sizes.values() if isinstance(size, int)]
    letters = result + "".join(summed)
    # There are no more products than an operand has elements if it has an axis for each letter.
    is_bounded = any(len(term) == len(letters) for term in terms)
    if not is_bounded and (len(known_sizes) < len(letters) or prod(known_sizes) > MAX_PRODUCTS):
        remedy = "write it as MatMul, or cast the inputs to FLOAT"
        raise Refused(f"multiplies integers of {len(letters)} axes, which would become too many products", remedy)
    factors = [_spread(context, name, term, letters) for name, term in zip(node.input, terms, strict=True)]
    total = reduce(lambda one, other: context.op("Mul", one, other), factors)
    if summed:
        total = context.op("ReduceSum", total, [*range(len(result), len(letters))], keepdims=0)
    return context.replace(total if len(factors) > 1 or summed else context.op("Identity", total))


def _spread(context: Context, name: str, term: str, letters: str) -> str:
    """An operand with an axis for each letter, of size 1 for those that it does not have."""
    order = sorted(range(len(term)), key=lambda axis: letters.index(term[axis]))
    if order != [*range(len(term))]:
        name = context.op("Transpose", name, perm=order)
    missing = [place for place, letter in enumerate(letters) if letter not in term]
    return context.op("Unsqueeze", name, missing) if missing else name


def _matrix_product(node: Node, context: Context, terms: list[str], result: str, summed: list[str]) -> str:
    """The product of two matrices, or of stacks of them; empty if the equation is another one."""
    first, second = terms
    stacks = "".join(letter for letter in result if letter in first and letter in second)
    rows, columns = ("".join(letter for letter in term if letter in result and letter not in other)
                     for term, other in ((first, second), (second, first)))  # fmt: skip
    inner = "".join(letter for letter in first if letter in second and letter in summed)
    if len(rows) != 1 or len(columns) != 1 or len(inner) != 1 or summed != [inner]:
        return ""
    if context.rank(node.input[0]) != len(first) or context.rank(node.input[1]) != len(second):
        return ""
    a = _spread(context, node.input[0], first, stacks + rows + inner)
    b = _spread(context, node.input[1], second, stacks + inner + columns)
    product, order = context.op("MatMul", a, b), stacks + rows + columns
    return product if order == result else context.op("Transpose", product, perm=[*map(order.index, result)])


Einsum = OperatorSpec(
    "Einsum",
    Outputs(einsum_dims, of_any_input),
    ToRten(Row(None, 1, "EinsumAttrs", (Field("equation", str, required=True),)), rewritings=(einsum,)),
    ToOnnx("N", "N", rewriting=without_gaps),
)


def determinant(node: Node, context: Context) -> list[Node] | None:
    """Write it by the rule of Sarrus, for matrices of up to three rows."""
    op = context.op
    data = context.input(0)
    order = context.static_dims(data, context.known_rank(data) - 2)[0]

    # The data are ..., rows, columns; an element is what all matrices have at one place.
    def element(row: int, column: int) -> str:
        line = op("Gather", data, row, axis=-2)  # ..., columns
        return op("Gather", line, column, axis=-1)  # ...

    def minor(rows: tuple[int, int], columns: tuple[int, int]) -> str:
        down = op("Mul", element(rows[0], columns[0]), element(rows[1], columns[1]))
        return op("Sub", down, op("Mul", element(rows[0], columns[1]), element(rows[1], columns[0])))

    if order == 1:
        return context.replace(element(0, 0))
    if order == 2:
        return context.replace(minor((0, 1), (0, 1)))
    if order != 3:
        raise Refused(f"computes determinants of {order} rows; at most three can be converted")
    first, second, third = (
        op("Mul", element(0, column), minor((1, 2), others)) for column, others in enumerate(((1, 2), (0, 2), (0, 1)))
    )
    return context.replace(op("Add", op("Sub", first, second), third))


Det = OperatorSpec("Det", to_rten=ToRten(rewritings=(determinant,)))

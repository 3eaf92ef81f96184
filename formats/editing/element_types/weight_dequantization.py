"""Weights that are integers in blocks with a scale each become float32s again, made while they are copied.

MatMulNBits of com.microsoft becomes MatMul, and GatherBlockQuantized Gather; a DequantizeLinear with blocks becomes the
matrix that it makes, or if it makes floats of chosen rows, their choice from a matrix of floats.

Spec: onnxruntime, ContribOperators.md; ONNX, DequantizeLinear 21.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from typing import TYPE_CHECKING, Final, NamedTuple

from formats.editing.element_types.weight_quantization import ConstantIn, constants_in, remove_unused
from formats.editing.nodes import make_node
from formats.editing.options import Edit, EditResult
from formats.editing.scopes import all_messages, free, main_graph, names_taken, nodes_named, subgraphs_of, used_in
from formats.ir import FIRST_WITH_CONSTANTS, STANDARD_DOMAINS, dtypes
from formats.ir.attributes import get_int
from formats.ir.storage import with_elements
from formats.onnxruntime import MICROSOFT
from formats.tensordata.sources.block_dequantization import DequantizedMatrix, Numbers
from formats.words import counted, in_units

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from formats.editing.element_types.weight_quantization import Constants
    from formats.ir.model import Graph, Model, Node, Tensor

PACKED = (2, 4, 8)  # the bits of an integer in a byte
OF_TABLES = (dtypes.UINT8, dtypes.UINT4, dtypes.INT4)
BYTE = 8  # bits
KIND = "dtype=float32"
UNFIT = "whose integers, scales and zero points are no constants of float32 that fit each other"


class FloatWeight(NamedTuple):
    """A weight with these dims that takes the place of a node's integers, and nodes that use it by its name.

    Without `nodes`, the weight has the name of the node's output.
    """

    dims: list[int]
    matrix: DequantizedMatrix
    nodes: Callable[[str], list[Node]] | None


class _Place(NamedTuple):
    """A graph, the constants that it sees, and its nodes that choose rows, by the name of their output."""

    graph: Graph
    constants: Constants
    rows: Mapping[str, Node]


def with_float_weights(model: Model, keep: Sequence[str] = ()) -> EditResult:
    """Make float32s of the integers of weights in the model itself; `keep` names nodes that stay as they are.

    Nodes stay whose scales are no float32s, or whose parts do not fit each other.

    Raises: EditError for a name that no node has.
    """
    work = _Dequantization(model, set(nodes_named(model, "keep", keep)))
    work.dequantize(main_graph(model), ChainMap())
    if work.count:
        work.remove_unused()
        model.ir_version = max(model.ir_version or 0, FIRST_WITH_CONSTANTS)
    return work.result()


class _Dequantization:
    """The weights of a model that became floats, and what a report says of them."""

    def __init__(self, model: Model, keep: set[int]) -> None:
        self.model, self.keep = model, keep
        self.taken = names_taken(model)
        self.made: dict[tuple[object, ...], str] = {}  # the names of weights, by their parts and form
        self.replaced: dict[int, ConstantIn] = {}
        self.choices: dict[int, Node] = {}  # nodes that chose rows of what is replaced, by identity
        self.count = self.after = 0  # weights, and their bytes
        self.nodes: Counter[str] = Counter()
        self.stay: Counter[str] = Counter()

    def dequantize(self, graph: Graph, outer: Constants) -> None:
        """Replace the nodes of a graph, and of the graphs in it, whose weights are integers in blocks."""
        visible = constants_in(graph, self.model, outer)
        for node in graph.node:
            for _, inner in subgraphs_of(node):
                self.dequantize(inner, visible)
        rows = {node.output[0]: node for node in graph.node if _chooses_rows(node)}
        place = _Place(graph, visible, rows)
        graph.node = [made for node in graph.node for made in self._in_place_of(node, place)]

    def remove_unused(self) -> None:
        """Remove what nothing uses any more: integers, scales and zero points, and choices of their rows."""
        used = set().union(*map(used_in, all_messages(self.model)))
        unused = {key for key, node in self.choices.items() if used.isdisjoint(node.output)}
        for message in all_messages(self.model):
            message.node = [node for node in message.node if id(node) not in unused]
        remove_unused(self.model, self.replaced.values())

    def _in_place_of(self, node: Node, place: _Place) -> list[Node]:
        """The nodes that compute the same as a node, from a weight of float32s if it has one of integers."""
        domain = "" if node.domain in STANDARD_DOMAINS else node.domain or ""
        form_of = _FORMS.get((domain, node.op_type or ""))
        has_blocks = node.op_type != "DequantizeLinear" or get_int(node, "block_size")
        if form_of is None or not node.output or not has_blocks:
            return [node]
        choices = [place.rows[name] for name in node.input] if place.rows.keys() >= {*node.input} else []
        names = [choice.input[0] for choice in choices] if choices else node.input
        parts = [place.constants.get(name) if name else None for name in names]
        tensors = [None if part is None else part.tensor for part in [*parts, None, None, None, None]]
        form = "kept by name" if id(node) in self.keep else form_of(self, node, tensors)
        if choices:
            form = _of_rows(node, form, {choice.input[1] for choice in choices})
        if isinstance(form, str):
            self.stay[f"{node.op_type} {form}"] += 1
            return [node]
        self.nodes[node.op_type or ""] += 1
        weights = [part for part in parts if part is not None]
        self.replaced.update((id(part.tensor), part) for part in weights)
        self.choices.update((id(choice), choice) for choice in choices)
        if form.nodes is None:
            self._add_weight(place.graph, weights[0].tensor, form, node.output[0])
            return []
        key = *(id(part.tensor) for part in weights), *form.matrix.dims, form.matrix.size
        if key not in self.made:
            integers = weights[0].tensor
            self.made[key] = free((integers.name or "").removesuffix(f"_Q{form.matrix.integers.bits}"), self.taken)
            self._add_weight(weights[0].graph, integers, form, self.made[key])
        return form.nodes(self.made[key])

    def _add_weight(self, graph: Graph, integers: Tensor, form: FloatWeight, name: str) -> None:
        """Add a weight to a graph."""
        new = with_elements(integers, form.matrix)
        new.name, new.data_type, new.dims = name, dtypes.FLOAT, form.dims
        graph.initializer.append(new)
        self.count, self.after = self.count + 1, self.after + form.matrix.nbytes

    def _product(self, node: Node, parts: list[Tensor | None]) -> FloatWeight | str:
        """A MatMulNBits as a MatMul, behind which a bias is added."""
        rows, columns, size = (get_int(node, name) for name in ("K", "N", "block_size"))
        bits, names = get_int(node, "bits", 4), [*node.input, *[""] * 6]
        if names[4]:
            return "with g_idx"
        if get_int(node, "weight_prepacked"):
            return "whose weight is packed for one processor"
        if bits not in PACKED or min(rows, columns, size) < 1 or size * bits % BYTE:
            return UNFIT
        count = -(-rows // size)

        def nodes(weight: str) -> list[Node]:
            if not names[5]:
                return [make_node("MatMul", [names[0], weight], node.output, name=node.name)]
            product = free(f"{node.output[0]}_product", self.taken)
            bias = free(f"{node.name or product}_bias", self.taken)
            return [
                make_node("MatMul", [names[0], weight], [product], name=node.name),
                make_node("Add", [product, names[5]], node.output, name=bias),
            ]

        layout = _Layout((columns, rows), size, 1, bits, 1 << (bits - 1), count * size, _whole(count, bits))
        return _form([rows, columns], layout, names[1:4], parts[1:4], nodes, is_turned=True)

    def _table(self, node: Node, parts: list[Tensor | None]) -> FloatWeight | str:
        """A GatherBlockQuantized as a Gather."""
        integers, bits = parts[0], get_int(node, "bits", 4)
        if integers is None or integers.data_type not in OF_TABLES or bits not in PACKED:
            return UNFIT
        dims, is_packed = [*integers.dims], integers.data_type == dtypes.UINT8
        if is_packed and dims:
            dims[-1] *= BYTE // bits
        layout = _layout_of(dims, node, "quantize_axis", bits if is_packed else 4, 1 << (bits - 1) if is_packed else 0)
        if layout is None:
            return "whose blocks go along an axis in the middle"
        if is_packed and layout.axis == 1:
            layout = layout._replace(zeros_row=_whole(layout.blocks, bits))
        names, axis = [*node.input, "", "", ""], get_int(node, "gather_axis")

        def nodes(weight: str) -> list[Node]:
            return [make_node("Gather", [weight, names[1]], node.output, name=node.name, axis=axis)]

        return _form(dims, layout, [names[0], *names[2:4]], [parts[0], *parts[2:4]], nodes)

    def _matrix(self, node: Node, parts: list[Tensor | None]) -> FloatWeight | str:
        """What a DequantizeLinear with blocks makes of constants."""
        integers = parts[0]
        kind = None if integers is None else dtypes.BY_NUMBER.get(integers.data_type or 0)
        if integers is None or kind is None or kind.kind not in "iu" or kind.bits not in PACKED:
            return UNFIT
        layout = _layout_of(integers.dims, node, "axis", kind.bits, 0)
        if layout is None:
            return "whose blocks go along an axis in the middle"
        return _form([*integers.dims], layout, [*node.input, "", "", ""][:3], parts[:3])

    def result(self) -> EditResult:
        """What was done, nothing if the model has no such weight."""
        edits = []
        if self.count:
            nodes = ", ".join(f"{name} x {count}" for name, count in sorted(self.nodes.items()))
            before = sum(part.tensor.source().nbytes for part in self.replaced.values())
            sizes = f"{in_units(before)} -> {in_units(self.after)}"
            weights = counted(self.count, "weight")
            edits.append(Edit(KIND, f"{weights} in blocks of integers became float32, {sizes}: {nodes}"))
        if self.stay:
            reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(self.stay.items()))
            edits.append(Edit(KIND, f"nodes whose weights stay integers: {reasons}"))
        return EditResult(tuple(edits))


_FORMS: Final = {
    (MICROSOFT, "MatMulNBits"): _Dequantization._product,
    (MICROSOFT, "GatherBlockQuantized"): _Dequantization._table,
    ("", "DequantizeLinear"): _Dequantization._matrix,
}


class _Layout(NamedTuple):
    """How a matrix is stored: blocks of `size` integers along `axis`, in rows of so many integers and zero points.

    Blocks without a zero point have `zero_point`.
    """

    stored: tuple[int, int]
    size: int
    axis: int
    bits: int
    zero_point: int
    row: int
    zeros_row: int

    @property
    def blocks(self) -> int:
        """The number of blocks along the axis."""
        return -(-self.stored[self.axis] // self.size)


def _chooses_rows(node: Node) -> bool:
    """Whether a node is a Gather along the first axis."""
    is_gather = node.op_type == "Gather" and node.domain in STANDARD_DOMAINS and get_int(node, "axis") == 0
    return is_gather and len(node.input) > 1 and bool(node.output)


def _of_rows(node: Node, form: FloatWeight | str, indices: set[str]) -> FloatWeight | str:
    """The form of a DequantizeLinear of rows, if these are the same of all its parts, and its blocks go along them."""
    if isinstance(form, str) or len(indices) > 1 or get_int(node, "axis", 1) != -1 or len(form.dims) < 2:
        return form if isinstance(form, str) else UNFIT

    def nodes(weight: str) -> list[Node]:
        return [make_node("Gather", [weight, *indices], node.output, name=node.name)]

    return form._replace(nodes=nodes)


def _layout_of(dims: list[int], node: Node, axis_name: str, bits: int, zero_point: int) -> _Layout | None:
    """The layout of a tensor as a matrix, if the blocks of a node go along its first or last axis."""
    axis, size = get_int(node, axis_name, 1), get_int(node, "block_size", 128)
    axis += len(dims) if axis < 0 else 0
    if not dims or axis not in (0, len(dims) - 1) or size < 1:
        return None
    size = max(min(size, dims[axis]), 1)
    stored = (dtypes.count(dims[:-1]), dims[-1]) if axis else (dims[0], dtypes.count(dims[1:]))
    layout = _Layout(stored, size, min(axis, 1), bits, zero_point, stored[1], stored[1])
    return layout._replace(zeros_row=layout.blocks) if axis else layout


def _form(
    dims: list[int],
    layout: _Layout,
    names: list[str],
    parts: list[Tensor | None],
    nodes: Callable[[str], list[Node]] | None = None,
    *,
    is_turned: bool = False,
) -> FloatWeight | str:
    """What takes the place of a node with these integers, scales and zero points; or why it stays."""
    rows, columns = layout.stored
    blocks = (rows, layout.blocks) if layout.axis else (layout.blocks, columns)
    integers = _numbers(parts[0], layout.bits, rows, layout.row)
    scales = _numbers(parts[1], 0, *blocks)
    floats = parts[2] is not None and parts[2].data_type == dtypes.FLOAT
    zeros = _numbers(parts[2], layout.bits, blocks[0], blocks[1] if floats else layout.zeros_row)
    if integers is None or scales is None or (names[2] and zeros is None):
        return UNFIT
    size = (columns, rows) if is_turned else (rows, columns)
    matrix = DequantizedMatrix(
        size, integers, scales, zeros, layout.zero_point, layout.size, layout.axis, is_turned=is_turned
    )
    return FloatWeight(dims, matrix, nodes)


def _numbers(tensor: Tensor | None, bits: int, rows: int, row: int) -> Numbers | None:
    """The numbers of a part of a weight, if it has so many: float32s, or integers of these bits, perhaps in UINT8s."""
    kind = None if tensor is None else dtypes.BY_NUMBER.get(tensor.data_type or 0)
    if tensor is None or kind is None:
        return None
    if kind.number == dtypes.FLOAT:
        bits = kind.bits
    elif bits == 0 or not (kind.number == dtypes.UINT8 or (kind.kind in "iu" and kind.bits == bits)):
        return None
    source = tensor.source()
    if source.nbytes != -(-rows * row * bits // BYTE) or not source.nbytes:
        return None
    return Numbers(source, bits, row, is_signed=kind.kind == "i")


def _whole(count: int, bits: int) -> int:
    """The elements of a row of this number that ends with a whole byte."""
    return -(-count * bits // BYTE) * BYTE // bits

"""Weights of products and tables as integers of 4 or 8 bits in blocks with a scale each, made while they are copied.

A product with a constant matrix (MatMul, Gemm) becomes MatMulNBits, and the choice of rows of a table (Gather)
GatherBlockQuantized, both of com.microsoft; or DequantizeLinear with blocks stands before the product, and behind the
choice of rows. Names and bytes of the integers, scales and zero points are those of onnxruntime's own quantiser.

Spec: onnxruntime, ContribOperators.md; ONNX, DequantizeLinear 21.
"""

from __future__ import annotations

from collections import ChainMap, Counter
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from formats.codecs.onnxruntime_releases import lacks
from formats.editing.nodes import make_node
from formats.editing.options import Edit, EditResult
from formats.editing.scopes import (
    all_messages,
    free,
    main_graph,
    names_of_uses,
    names_taken,
    nodes_named,
    subgraphs_of,
    training_bindings,
    used_in,
)
from formats.editing.versions.operator_sets import version_of, with_opset
from formats.errors import UnsupportedError
from formats.ir import FIRST_WITH_CONSTANTS, STANDARD_DOMAINS, dtypes
from formats.ir.attributes import get_float, get_int
from formats.ir.copies import copied
from formats.ir.model import OperatorSetId
from formats.ir.storage import with_elements
from formats.onnxruntime import MICROSOFT
from formats.tensordata.sources.block_quantization import Blocks, Part
from formats.words import counted, in_units

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from formats.ir.model import Graph, Model, Node, Tensor

# The element types of weights, with the bits of an integer, and whether the zero point is in the middle.
WEIGHT_TYPES: Mapping[str, tuple[int, bool]] = {
    "int4": (4, True), "int8": (8, True), "uint4": (4, False), "uint8": (8, False)
}  # fmt: skip
BLOCK = 32  # the elements of a block, by default
WITH_BLOCKS = 21  # the first operator set whose DequantizeLinear has blocks
# The first releases of onnxruntime that compute with the weights, by bits, found by running each. 1.16 has MatMulNBits,
# but is wrong with zero points for an odd number of blocks.
PRODUCTS: Mapping[int, str] = {4: "1.17", 8: "1.23"}
TABLES: Mapping[int, str] = {4: "1.20", 8: "1.23"}
DEQUANTIZES = "1.19"
PRODUCT_OPERATORS = ("MatMul", "Gemm")
BITS_OF_ROWS = 8  # ONNX's Gather takes no integers of 4 bits
OF_TYPES = 10  # the first IR version with integers of 4 bits
_NUMPY = {dtypes.FLOAT: "float32", dtypes.FLOAT16: "float16"}
_INTEGERS = {
    (4, True): dtypes.INT4, (4, False): dtypes.UINT4, (8, True): dtypes.INT8, (8, False): dtypes.UINT8
}  # fmt: skip


class Forms(NamedTuple):
    """Which operators a runtime has for quantised weights: those of com.microsoft for products, and for tables.

    `whole_blocks`: only of weights that end with a whole block.
    """

    products: bool
    tables: bool
    whole_blocks: bool = False


OF_ONNX = Forms(products=False, tables=False)
OF_RTEN = Forms(products=True, tables=False, whole_blocks=True)  # for int4: its loader takes no zero points


def forms_for_release(release: str, bits: int) -> Forms:
    """The operators that a release of onnxruntime has for weights of so many bits.

    Raises: UnsupportedError if it has none.
    """
    forms = Forms(*(not lacks(release, first[bits]) for first in (PRODUCTS, TABLES)))
    if not forms.products and lacks(release, DEQUANTIZES):
        first = min(PRODUCTS[bits], DEQUANTIZES)
        raise UnsupportedError(
            f"onnxruntime {release} does not compute with weights of {bits} bits; {first} is the first that does"
        )
    return forms


def quantize_weights(
    model: Model, type_name: str, forms: Forms, *, block: int, keep: Sequence[str] = ()
) -> tuple[Model, EditResult]:
    """The model with weights of a type of `WEIGHT_TYPES`, and what was done; `keep` names nodes that stay as they are.

    Raises: EditError for a name that no node has; UnsupportedError if the operator set of the model is too old.
    """
    result = EditResult()
    if not forms.products and (version_of(model.opset_import) or 0) < WITH_BLOCKS:
        model, result = with_opset(model, WITH_BLOCKS)
    new = copied(model)
    work = _Quantization(new, type_name, forms, block, set(nodes_named(new, "keep", keep)))
    work.quantize(main_graph(new), ChainMap())
    work.finish()
    return new, result + work.result()


def saved_nbytes(model: Model, type_name: str) -> int:
    """How many bytes fewer the weights take with a type of `WEIGHT_TYPES`, in blocks of `BLOCK` for any runtime.

    No weight is read: the sizes of what would be written follow from the dims.
    """
    work = _Quantization(model, type_name, OF_ONNX, BLOCK, set())
    uses = Counter(chain.from_iterable(map(names_of_uses, all_messages(model))))
    weights: dict[int, Tensor] = {}
    made: dict[tuple[int, Blocks], int] = {}
    for node, (tensor, _), axis in work.weights_in(main_graph(model), ChainMap()):
        weights[id(tensor)] = tensor
        uses[tensor.name or ""] -= 1
        blocks, (rows, columns) = work.blocks_of(node, axis), tensor.dims
        float_bits = dtypes.BY_NUMBER[tensor.data_type or 0].bits
        made[id(tensor), blocks] = sum(blocks.nbytes_of(part, (rows, columns), float_bits) for part in blocks.parts)
    gone = (tensor for tensor in weights.values() if not uses[tensor.name or ""])
    return sum(dtypes.BY_NUMBER[tensor.data_type or 0].nbytes(tensor.dims) for tensor in gone) - sum(made.values())


class ConstantIn(NamedTuple):
    """An initializer, and the graph that has it."""

    tensor: Tensor
    graph: Graph


Constants: TypeAlias = ChainMap[str, ConstantIn | None]  # those that a graph sees; `None` for names of other values


def constants_in(graph: Graph, model: Model, outer: Constants) -> Constants:
    """The initializers that a graph of the model sees and that nobody can change, in a new map of `outer`."""
    constants: dict[str, ConstantIn | None] = {
        tensor.name or "": ConstantIn(tensor, graph) for tensor in graph.initializer
    }
    others = [value.name or "" for value in graph.input]  # a caller may replace these
    if (model.ir_version or 0) < FIRST_WITH_CONSTANTS:
        others = [name for name in others if name not in constants]
    others += [name for node in graph.node for name in node.output]
    others += [entry.key or "" for entry in training_bindings(model)]
    constants.update(dict.fromkeys(others))
    return outer.new_child(constants)


def remove_unused(model: Model, weights: Iterable[ConstantIn]) -> None:
    """Remove those of the weights that nothing in the model uses any more."""
    weights = [*weights]
    used = set().union(*map(used_in, all_messages(model)))
    gone = {id(tensor) for tensor, _ in weights if tensor.name not in used}
    for graph in {id(graph): graph for _, graph in weights}.values():
        names = {tensor.name for tensor in graph.initializer if id(tensor) in gone}
        graph.initializer = [tensor for tensor in graph.initializer if id(tensor) not in gone]
        graph.input = [value for value in graph.input if value.name not in names]


def _dims_of(part: Part, blocks: Blocks, dims: tuple[int, int]) -> list[int]:
    """The dims of the integers of a matrix with these dims, or of what each of its blocks has."""
    (rows, columns), count = dims, blocks.count(dims)
    if part is Part.INTEGERS and blocks.by_line:
        return [dims[1 - blocks.axis], count, blocks.size * blocks.bits // 8]
    if part is Part.INTEGERS:
        return [rows, columns]
    return [rows, count] if blocks.axis else [count, columns]


class _Quantization:
    """The weights of a model that became integers, and what a report says of them."""

    def __init__(self, model: Model, type_name: str, forms: Forms, block: int, keep: set[int]) -> None:
        self.model, self.type_name, self.forms, self.block, self.keep = model, type_name, forms, block, keep
        self.bits, self.symmetric = WEIGHT_TYPES[type_name]
        self.taken = names_taken(model)
        # onnxruntime 1.32 fails if both factors of a product come from a DequantizeLinear of 8 bits with blocks.
        self.factors = {
            name
            for message in all_messages(model)
            for node in message.node
            if node.op_type in PRODUCT_OPERATORS
            for name in node.input
        }
        self.made: dict[tuple[int, Blocks], list[str]] = {}  # the names of the parts, by the tensor
        self.floats: dict[tuple[int, Blocks], str] = {}  # the names of matrices that DequantizeLinear makes
        self.dequantizing: dict[int, list[Node]] = {}  # nodes for the beginning of graphs, by identity
        self.replaced: dict[int, ConstantIn] = {}
        self.before = self.after = 0  # bytes
        self.tables: set[int] = set()  # tensors with more bits than the others, by identity
        self.nodes: Counter[str] = Counter()
        self.stay: Counter[str] = Counter()

    def quantize(self, graph: Graph, outer: Constants) -> None:
        """Replace the nodes of a graph, and of the graphs in it, whose weights can be quantised."""
        visible = constants_in(graph, self.model, outer)
        for node in graph.node:
            for _, inner in subgraphs_of(node):
                self.quantize(inner, visible)
        nodes = [made for node in graph.node for made in self._in_place_of(node, visible)]
        graph.node = [*self.dequantizing.pop(id(graph), []), *nodes]

    def weights_in(self, graph: Graph, outer: Constants) -> Iterator[tuple[Node, ConstantIn, int]]:
        """The nodes of a graph, and of the graphs in it, whose weights can be quantised; the weights; their axes."""
        visible = constants_in(graph, self.model, outer)
        for node in graph.node:
            for _, inner in subgraphs_of(node):
                yield from self.weights_in(inner, visible)
            weight = self._weight_of(node, visible)
            axis = self._axis_of_blocks(node, weight.tensor) if weight else ""
            if weight and isinstance(axis, int):
                yield node, weight, axis

    def blocks_of(self, node: Node, axis: int) -> Blocks:
        """The blocks of the weight of a node, with operators of ONNX."""
        if node.op_type == "Gather":
            return Blocks(BITS_OF_ROWS, self.block, 1, self.symmetric)
        return Blocks(self.bits, self.block, axis, self.symmetric)

    def _in_place_of(self, node: Node, visible: Constants) -> list[Node]:
        """The nodes that compute the same as a node, from a quantised weight if it has one."""
        weight = self._weight_of(node, visible)
        if weight is None:
            return [node]
        axis = self._axis_of_blocks(node, weight.tensor)
        if isinstance(axis, str):
            self.stay[axis] += 1
            return [node]
        if node.op_type == "Gather":
            return [self._table(node, weight)] if self.forms.tables else self._rows(node, weight)
        return self._product(node, weight, axis) if self.forms.products else [self._dequantized(node, weight, axis)]

    def _weight_of(self, node: Node, visible: Constants) -> ConstantIn | None:
        """The constant of floats that a node multiplies with, or chooses from."""
        place = {"MatMul": 1, "Gemm": 1, "Gather": 0}.get(node.op_type or "")
        if place is None or node.domain not in STANDARD_DOMAINS or len(node.input) < 2 or not node.output:
            return None
        weight = visible.get(node.input[place])
        return weight if weight and weight.tensor.data_type in (dtypes.FLOAT, dtypes.FLOAT16) else None

    def _axis_of_blocks(self, node: Node, weight: Tensor) -> int | str:
        """The axis of the weight along which blocks go, the one that a product sums; or why the node stays."""
        if id(node) in self.keep:
            return "kept by name"
        if len(weight.dims) != 2:
            return "whose weight is no matrix"
        if node.op_type == "Gather":
            if self.forms.products and not self.forms.tables:
                return "of tables, for which the runtime has no operator"
            if get_int(node, "axis") not in (0, -2):
                return "along another axis than the first"
            if not self.forms.tables and node.output[0] in self.factors:
                return "of a table whose rows are factors of a product"
        elif get_int(node, "transA") or {get_float(node, "alpha", 1.0), get_float(node, "beta", 1.0)} != {1.0}:
            return "with transA, alpha or beta"
        axis = 1 if node.op_type == "Gather" or get_int(node, "transB") else 0
        if weight.dims[axis] < self.block or 0 in weight.dims:
            return "whose weight is shorter than a block"
        if self.forms.whole_blocks and weight.dims[axis] % self.block:
            return "whose weight does not end with a whole block"
        return axis

    def _product(self, node: Node, weight: ConstantIn, axis: int) -> list[Node]:
        """A product with a quantised matrix; what Gemm adds is added behind it."""
        parts = self._parts(weight, Blocks(self.bits, self.block, axis, self.symmetric, by_line=True))
        columns, length = weight.tensor.dims[1 - axis], weight.tensor.dims[axis]
        sizes = {"K": length, "N": columns, "bits": self.bits, "block_size": self.block}
        added = [name for name in node.input[2:3] if name]
        output = free(f"{node.output[0]}_product", self.taken) if added else node.output[0]
        self.nodes["MatMulNBits"] += 1
        nodes = [make_node("MatMulNBits", [node.input[0], *parts], [output], name=node.name, domain=MICROSOFT, **sizes)]
        if added:
            nodes.append(
                make_node("Add", [output, *added], node.output, name=free(f"{node.name or output}_bias", self.taken))
            )
        return nodes

    def _table(self, node: Node, weight: ConstantIn) -> Node:
        """The choice of rows of a quantised table."""
        parts = self._parts(weight, Blocks(self.bits, self.block, 1, self.symmetric, divides=True))
        self.nodes["GatherBlockQuantized"] += 1
        return make_node(
            "GatherBlockQuantized",
            [parts[0], node.input[1], *parts[1:]],
            node.output,
            name=node.name,
            domain=MICROSOFT,
            gather_axis=0,
            quantize_axis=1,
            block_size=self.block,
            bits=8 if self.bits == 8 else None,  # releases before 1.23 do not know the attribute
        )

    def _rows(self, node: Node, weight: ConstantIn) -> list[Node]:
        """The choice of rows of integers, scales and zero points, of which DequantizeLinear makes floats.

        A DequantizeLinear before the Gather would make floats of the whole table, whenever the model runs.
        """
        names, rows = self._parts(weight, self.blocks_of(node, 1)), []
        nodes = []
        for name in names:
            rows.append(free(f"{name}_rows", self.taken))
            nodes.append(make_node("Gather", [name, node.input[1]], rows[-1:], name=rows[-1]))
        self.nodes["DequantizeLinear"] += 1
        self.tables.add(id(weight.tensor))
        return [
            *nodes,
            make_node("DequantizeLinear", rows, node.output, name=node.name, axis=-1, block_size=self.block),
        ]

    def _dequantized(self, node: Node, weight: ConstantIn, axis: int) -> Node:
        """The node with a matrix that DequantizeLinear makes."""
        blocks = self.blocks_of(node, axis)
        if (key := (id(weight.tensor), blocks)) not in self.floats:
            parts, name = self._parts(weight, blocks), free(f"{weight.tensor.name}_dequantized", self.taken)
            self.floats[key] = name
            self.dequantizing.setdefault(id(weight.graph), []).append(
                make_node("DequantizeLinear", parts, [name], name=name, axis=axis, block_size=self.block)
            )
            self.nodes["DequantizeLinear"] += 1
        node.input = [self.floats[key] if index == 1 else name for index, name in enumerate(node.input)]
        return node

    def _parts(self, weight: ConstantIn, blocks: Blocks) -> list[str]:
        """The names of the integers, scales and zero points of a weight, which are made once."""
        tensor, graph = weight
        if (key := (id(tensor), blocks)) not in self.made:
            rows, columns = tensor.dims
            integers = dtypes.UINT8 if blocks.by_line else _INTEGERS[blocks.bits, blocks.is_signed]
            names = []
            for part in blocks.parts:
                suffix = f"Q{blocks.bits}" if part is Part.INTEGERS else part.value
                data_type = tensor.data_type or 0 if part is Part.SCALES else integers
                source = blocks.of(
                    tensor.source(), _NUMPY[tensor.data_type or 0], (rows, columns), part, tensor.name or ""
                )
                new = with_elements(tensor, source)
                new.name, new.data_type = free(f"{tensor.name}_{suffix}", self.taken), data_type
                new.dims = _dims_of(part, blocks, (rows, columns))
                if blocks.by_line and part is not Part.INTEGERS:  # all in one row
                    new.dims = [source.nbytes // dtypes.BY_NUMBER[data_type].nbytes([1])]
                graph.initializer.append(new)
                names.append(new.name)
                self.after += source.nbytes
            self.made[key] = names
            if id(tensor) not in self.replaced:
                self.replaced[id(tensor)] = weight
                self.before += tensor.source().nbytes
        return self.made[key]

    def finish(self) -> None:
        """Remove weights that nothing uses any more, and state what the new nodes and types need."""
        remove_unused(self.model, self.replaced.values())
        has_microsoft = any(entry.domain == MICROSOFT for entry in self.model.opset_import)
        if self.nodes.keys() - {"DequantizeLinear"} and not has_microsoft:
            self.model.opset_import.append(OperatorSetId(MICROSOFT, 1))
        if self.replaced:
            is_new = "DequantizeLinear" in self.nodes or (self.bits == 4 and "GatherBlockQuantized" in self.nodes)
            needed = OF_TYPES if is_new else FIRST_WITH_CONSTANTS
            self.model.ir_version = max(self.model.ir_version or 0, needed)

    def result(self) -> EditResult:
        """What was done."""
        edits = []
        if self.replaced:
            nodes = ", ".join(f"{name} x {count}" for name, count in sorted(self.nodes.items()))
            sizes = f"{in_units(self.before)} -> {in_units(self.after)}"
            weights = counted(len(self.replaced), "weight")
            edits.append(
                Edit("weights_dtype", f"{weights} became {self.type_name} in blocks of {self.block}, {sizes}: {nodes}")
            )
            if self.tables and self.bits < BITS_OF_ROWS:
                tables = counted(len(self.tables), "table")
                edits.append(Edit("weights_dtype", f"{tables} of these in {BITS_OF_ROWS} bits: Gather takes no fewer"))
        else:
            edits.append(Edit("weights_dtype", "no weight of a product or table can become integers"))
        if self.stay:
            reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(self.stay.items()))
            edits.append(Edit("weights_dtype", f"nodes that stay as they are: {reasons}"))
        return EditResult(tuple(edits))

"""Nodes that compute constants from constants alone go, and what they compute stays (`--fold`).

A Shape or Size of a value with fixed dims is a constant, too, and so is a part of a shape in which all is fixed. Dims
are those that onnx infers from the inputs: what the model states of inner values may be wrong. What is found makes more
shapes known, so the model is folded again while there is something to fold.
"""

from __future__ import annotations

from collections import ChainMap, Counter, deque
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from formats.editing.branches import Names, branch_of, inlined
from formats.editing.folding import FOLDED, MOST_ELEMENTS, few_integers, most_elements
from formats.editing.inference import check_again, without_stated
from formats.editing.nodes import constant_node, constant_of_node
from formats.editing.options import Edit, EditResult
from formats.editing.pruning import pruned_from
from formats.editing.scopes import (
    all_graphs,
    all_messages,
    defined_in,
    main_graph,
    names_used,
    shape_of,
    subgraphs_of,
    training_bindings,
)
from formats.ir import FIRST_WITH_CONSTANTS, STANDARD_DOMAINS, dtypes, walk
from formats.ir.attributes import get_int
from formats.ir.copies import copied
from formats.ir.functions import functions_of, key_of
from formats.ir.model import EXTERNAL, Dimension, Graph, TensorShape, TensorType, Type, ValueInfo, entries
from formats.ir.storage import from_numpy, with_elements, with_raw_data
from formats.onnxpb.evaluation import evaluated, model_of
from formats.onnxpb.inference import inferred
from formats.tensordata.sources.source import FileSpan, Literal
from formats.tensordata.spool import Spool
from formats.words import counted, joined

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, MutableMapping

    from formats.ir.model import Model, Node, Tensor

    Sizes = list[int | None]
    Array = np.ndarray[Any, Any]

ALLOWANCE: Final = 64 << 10  # bytes by which a result may be larger than the constants that its node takes
MOST_TAKEN: Final = 128 << 20  # bytes that a node may take
PIECE_NODES, PIECE_BYTES = 64, 16 << 20  # that are computed at a time
# All nodes together may take and make this number of bytes, and this multiple of the bytes of the model's constants.
MOST_WORK, WORK_PER_BYTE = 64 << 20, 8
IN_MEMORY: Final = 64 << 10  # bytes of a result that stays in memory; a larger one goes to a temporary file
ROUNDS: Final = 8
MOVING: Final = ("Concat", "Gather", "Slice", "Squeeze", "Unsqueeze")  # results have elements of inputs
NUMBERS: Final = {row.number for row in dtypes.DATA_TYPES if row.bits}
# Why a node stays whose inputs are constants.
RANDOM = "Bernoulli Dropout Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike"
STAYS: Final = {
    **dict.fromkeys(RANDOM.split(), "random"),
    **dict.fromkeys(("DequantizeLinear", "DynamicQuantizeLinear", "QuantizeLinear"), "quantisation"),
    **dict.fromkeys(("If", "Loop", "Scan", "SequenceMap"), "a graph of its own"),
}
COPY: Final = "a copy of a weight"
MEETS: Final = "a name that another graph has, too"
TOO_LARGE: Final = f"more than {MOST_TAKEN >> 20} MiB"
TOO_MUCH: Final = "more work than the size of the model allows"


def fold_in(model: Model, before: Model) -> EditResult:
    """Compute what nodes of the main graph and its subgraphs compute from constants; drop what nobody needs then.

    `before` is the model without any edit.

    Raises: MissingPackageError if onnx is not installed; UnsupportedError if a node ends the process that computes;
    EditError if the constants contradict a node, such as one in a branch that is never taken.
    """
    folding = _Folding(model)
    nodes = branches = 0
    for _ in range(ROUNDS):
        folding.fold()
        nodes, branches = nodes + folding.nodes, branches + folding.branches
        if not folding.nodes and not folding.branches and not folding.has_more_sizes:
            break
    pruned = pruned_from(model)
    made = {id(tensor) for tensor in folding.made}
    nbytes = sum(_nbytes(tensor) for _, tensor in walk.tensors(model) if id(tensor) in made)
    edits = []
    if nodes:
        edits.append(Edit("fold", f"{counted(nodes, 'node')} folded, {counted(nbytes, 'byte')} of constants added"))
    if branches:
        edits.append(Edit("fold", f"{counted(branches, 'If')} replaced by the branch that it takes"))
    if pruned:
        edits.append(Edit("prune", f"{pruned} removed, which no output needs"))
    notes = [] if nodes or branches else ["there was nothing to fold"]
    there = {id(node) for message in all_messages(model) for node in message.node}
    left = Counter(f"{node.op_type} ({reason})" for node, reason in folding.left if id(node) in there)
    if left:
        kinds = [f"{count:,} {kind}" for kind, count in left.most_common()]
        notes.append(f"not folded, though the inputs are constants: {joined(kinds)}")
    if not folding.sizes:
        notes.append("no shape is known: the model contradicts itself, or is too large for onnx")
    checked = check_again(model, before, "its constants") if edits else EditResult()
    return EditResult((*edits, *(Edit("stays", note) for note in notes))) + checked


class _Known(NamedTuple):
    """What is known of the values that a graph sees, by name; a `None` hides what is outside.

    `shapes` are shapes, or parts of them, in which a dim that is not known is -1.
    """

    constants: MutableMapping[str, Tensor | None]
    sizes: MutableMapping[str, Sizes | None]
    shapes: MutableMapping[str, Array | None]

    def inside(self, graph: Graph, sizes: Mapping[str, Sizes]) -> _Known:
        """What is known in a graph before its nodes are."""
        hidden = dict.fromkeys(defined_in(graph))
        return _Known(
            ChainMap({**hidden}, self.constants),
            ChainMap({**hidden, **sizes}, self.sizes),
            ChainMap({**hidden}, self.shapes),
        )

    def dims(self, name: str) -> Sizes | None:
        """The dims of a value, `None` for each one that is not known, or for all."""
        tensor = self.constants.get(name)
        return self.sizes.get(name) if tensor is None else [*tensor.dims]


class _Folding:
    """The rounds in which a model is folded."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.is_old = (model.ir_version or 0) < FIRST_WITH_CONSTANTS  # where each initializer is an input, too
        self.functions = functions_of(model.functions)
        self.made: list[Tensor] = []  # constants of the new model
        constants = sum(_nbytes(tensor) for _, tensor in walk.tensors(main_graph(model)))
        self.work_left = MOST_WORK + WORK_PER_BYTE * constants  # bytes
        self.training = entries(model, "training_info")
        self.trained = {entry.key for entry in training_bindings(model)}  # names of initializers
        self.reshaped: dict[str, ValueInfo] = {}  # values of the main graph whose sizes onnx does not infer
        self.types: dict[str, Type] = {}  # of values of the main graph
        self._file: Spool | None = None
        self.names = Names(model)

    def fold(self) -> None:
        """Fold once."""
        self.nodes = self.branches = 0
        self.left: list[tuple[Node, str]] = []  # what was not folded, and why
        self.has_more_sizes = False
        self.sizes = self._sizes()
        self.fold_graph(main_graph(self.model), _Known({}, {}, {}))

    def _sizes(self) -> dict[int, dict[str, Sizes]]:
        """The sizes of values by name, for each graph by its `id`; nothing if they cannot be inferred."""
        new = without_stated(self.model if len(all_graphs(self.model)) == 1 else copied(self.model))
        graph = main_graph(new)
        for inner in all_graphs(new)[1:]:
            inner.value_info = []
            for value in (*inner.input, *inner.output):
                if value.type is not None and value.type.tensor_type is not None:
                    value.type.tensor_type.shape = None
        graph.value_info = [*self.reshaped.values()]
        if not self.is_old:  # onnx would follow the default of an input
            given = {value.name for value in graph.input}
            graph.initializer = [tensor for tensor in graph.initializer if tensor.name not in given]
        graph.input = [copied(value) for value in graph.input]
        for dim in (dim for value in graph.input if (shape := shape_of(value)) for dim in shape.dim):
            if dim.dim_value is not None and dim.dim_value < 0:  # as some exporters write what is not known
                dim.dim_value = None
        with_types = inferred(new)
        if with_types is None:
            return {}
        described = main_graph(with_types).value_info
        self.types = {value.name or "": value.type for value in described if value.type is not None}
        return {
            id(graph): {
                value.name or "": [dim.dim_value for dim in shape.dim]
                for value in (*other.input, *other.value_info, *other.output)
                if (shape := shape_of(value)) is not None
            }
            for graph, other in zip(all_graphs(self.model), all_graphs(with_types), strict=True)
        }

    def fold_graph(self, graph: Graph, around: _Known) -> None:
        """Fold a graph and those in it, which see what is known around it."""
        is_main = graph is self.model.graph
        part = _GraphFolding(self, graph, around.inside(graph, self.sizes.get(id(graph), {})))
        given = self.trained if is_main and self.is_old else {value.name for value in graph.input} | self.trained
        part.know(tensor for tensor in graph.initializer if tensor.name not in given)
        part.fold()
        self.nodes += len(part.folded)
        if not part.folded:
            return
        left = [node for node in graph.node if id(node) not in part.folded]
        used = _annotating(graph).union(*map(names_used, left))
        outputs = {value.name for value in graph.output}
        nodes: list[Node] = []
        for node in graph.node:
            results = [part.results[name] for name in node.output if name] if id(node) in part.folded else []
            nodes += [] if results else [node]
            for tensor in results:
                name = tensor.name or ""
                if name not in used and name not in outputs and not (is_main and self.training):
                    continue
                self.made.append(tensor)
                if self.is_old or name in outputs:
                    nodes.append(constant_node(tensor))
                else:
                    graph.initializer.append(tensor)
        graph.node = nodes
        graph.value_info = [value for value in entries(graph, "value_info") if value.name not in part.results]

    def kept(self, tensor: Tensor, *, for_data_file: bool) -> Tensor:
        """A result, of which only a small one is in memory, and a large one can be for a data file."""
        data = tensor.source().read()
        if len(data) <= IN_MEMORY:
            return with_raw_data(tensor, Literal(data))
        self._file = self._file or Spool(Path("the constants that were folded"))
        self._file.append(data)
        if for_data_file:
            tensor = replace(tensor, data_location=EXTERNAL)
        return with_elements(tensor, FileSpan(self._file, self._file.nbytes - len(data), len(data)))


class _GraphFolding:
    """The folding of one graph: `folded` are nodes by their `id`, and `results` what they compute."""

    def __init__(self, whole: _Folding, graph: Graph, known: _Known) -> None:
        self.whole, self.graph, self.known = whole, graph, known
        self.folded: set[int] = set()
        self.results: dict[str, Tensor] = {}
        self._begin()

    def _begin(self) -> None:
        """Begin a piece: nodes that are computed together, the constants that they take, and the names of results."""
        self._nodes: list[Node] = []
        self._taken: dict[str, Tensor] = {}
        self._made: set[str] = set()

    def know(self, tensors: Iterable[Tensor]) -> None:
        """Take tensors for constants."""
        self.known.constants.update((tensor.name or "", tensor) for tensor in tensors)

    def fold(self) -> None:
        """Fold all nodes."""
        nodes: list[Node] = []
        waiting = deque(self.graph.node)
        while waiting:
            node = waiting.popleft()
            if (branch := self._taken_branch(node)) is not None:
                waiting.extendleft(reversed(self._inlined(node, branch)))
                continue
            nodes.append(node)
            if (tensor := constant_of_node(node)) is not None:
                self.know((tensor,))
            elif (array := self._shape(node)) is None:
                self._resize(node)
                self._fold_node(node)
            elif array.size and array.min() < 0:
                self.known.shapes[node.output[0]] = array
            else:
                self._take(node, [from_numpy(array, node.output[0])])
        self._compute()
        self.graph.node = nodes

    def _take(self, node: Node, tensors: list[Tensor]) -> None:
        """Take tensors for what a node computes."""
        self.folded.add(id(node))
        self.results.update((tensor.name or "", tensor) for tensor in tensors)
        self.know(tensors)

    def _fold_node(self, node: Node) -> None:
        """Fold a node whose inputs are constants, at once or with its piece."""
        subgraphs = subgraphs_of(node)
        if subgraphs:
            self._compute()
        for _, inner in subgraphs:
            self.whole.fold_graph(inner, self.known)
        names = [*filter(None, node.input)]
        tensors = {name: self.known.constants.get(name) for name in names if name not in self._made}
        taken = {name: tensor for name, tensor in tensors.items() if tensor is not None}
        if len(taken) < len(tensors) or not any(node.output) or node.op_type == "Constant":
            return
        if node.op_type == "Identity" and node.domain in STANDARD_DOMAINS and names:
            self._compute()
            self._copy(node)
        elif reason := self._reason(node, taken.values()):
            self.whole.left.append((node, reason))
        else:
            self._nodes.append(node)
            self._taken.update(taken)
            self._made.update(node.output)
            if len(self._nodes) >= PIECE_NODES or sum(map(_nbytes, self._taken.values())) >= PIECE_BYTES:
                self._compute()

    def _copy(self, node: Node) -> None:
        """Know the result of an Identity, which goes only if its constant is small: else two names would hold it."""
        tensor = self.known.constants.get(node.input[0])
        if tensor is None:
            return
        copy = replace(tensor, name=node.output[0])
        if _nbytes(tensor) <= ALLOWANCE and not self._meets(node):
            self._take(node, [copy])
        else:
            self.know((copy,))
            self.whole.left.append((node, COPY))

    def _meets(self, node: Node) -> bool:
        """Whether a value of the node has the name of one in another graph: an inner one may be ahead of it."""
        return any(self.whole.names.counts[name] > 1 for name in node.output if name)

    def _reason(self, node: Node, taken: Iterable[Tensor]) -> str:
        """Why a node stays whose inputs are constants; nothing if it is computed."""
        if self._meets(node):
            return MEETS
        if key_of(node.domain, node.op_type, node.overload) in self.whole.functions:
            return "a function of the model"
        if node.domain not in STANDARD_DOMAINS:
            return "another domain"
        if node.op_type in STAYS:
            return STAYS[node.op_type]
        if any(tensor.data_type not in NUMBERS for tensor in taken):
            return "no numbers"
        if sum(map(_nbytes, taken)) > MOST_TAKEN:
            return TOO_LARGE
        return TOO_MUCH if self.whole.work_left < 0 else ""

    def _compute(self) -> None:
        """Compute the nodes of the piece."""
        if not self._nodes:
            return
        nodes = self._nodes
        taken = {
            name: with_raw_data(replace(tensor, name=name), Literal(tensor.source().read()))
            for name, tensor in self._taken.items()
        }
        self._begin()
        answer = evaluated(model_of(self.whole.model, nodes, taken), ALLOWANCE)
        for node in nodes:
            constants = [tensor for name in {*node.input} if (tensor := self.known.constants.get(name)) is not None]
            results = [answer.results[name] for name in node.output if name in answer.results]
            if results:
                for_data_file = any(map(walk.is_external, constants))
                self._take(node, [self.whole.kept(tensor, for_data_file=for_data_file) for tensor in results])
            elif reason := answer.reasons.get(next(filter(None, node.output))):
                self.whole.left.append((node, reason))
            self.whole.work_left -= sum(map(_nbytes, (*constants, *results)))

    # Shapes

    def _shape(self, node: Node) -> Array | None:
        """A shape, a size, or a part of a shape, with -1 for what is not known; nothing if it is something else."""
        if node.domain not in STANDARD_DOMAINS or len(node.output) != 1 or not node.output[0] or not node.input:
            return None
        if self._meets(node):
            return None
        dims = self.known.dims(node.input[0]) if len(node.input) == 1 else None
        if node.op_type == "Shape" and dims is not None:
            start, end = (get_int(node, name, None) for name in ("start", "end"))
            return np.array([-1 if dim is None else dim for dim in dims[start:end]], "int64")
        if node.op_type == "Size" and dims is not None and None not in dims:
            count = dtypes.count(dims)  # type: ignore[arg-type]  # all are known
            return None if count >> 63 else np.array(count, "int64")
        moved = node.input if node.op_type == "Concat" else node.input[:1]
        if node.op_type not in MOVING or all(self.known.shapes.get(name) is None for name in moved):
            return None
        if not self._made.isdisjoint(node.input):
            self._compute()
        found = (self._elements(name, of_shape=index < len(moved)) for index, name in enumerate(node.input))
        arrays = [array for array in found if array is not None]
        if len(arrays) < len(node.input):
            return None
        try:
            array = None if most_elements(node, arrays) > MOST_ELEMENTS else FOLDED[node.op_type](node, arrays)
        except (ArithmeticError, LookupError, TypeError, ValueError):  # the node is not valid
            return None
        return None if array is None else np.asarray(array)

    def _resize(self, node: Node) -> None:
        """Know the sizes of the result of a Reshape whose shape is known in part, where onnx does not infer them."""
        if node.op_type != "Reshape" or node.domain not in STANDARD_DOMAINS or len(node.input) != 2 or not node.output:
            return
        name, shape = node.output[0], self.known.shapes.get(node.input[1])
        kind = self.whole.types.get(name) if self.graph is self.whole.model.graph else None
        if shape is None or kind is None or kind.tensor_type is None or self.known.sizes.get(name) is not None:
            return
        sizes = [size if size > 0 else None for size in shape.ravel().tolist()]
        self.known.sizes[name] = sizes
        shaped = TensorShape([Dimension(size) for size in sizes])
        self.whole.reshaped[name] = ValueInfo(name, Type(tensor_type=TensorType(kind.tensor_type.elem_type, shaped)))
        self.whole.has_more_sizes = True

    def _elements(self, name: str, *, of_shape: bool) -> Array | None:
        """Elements of a constant of few integers, or if it may be one of a shape, whose elements may not be known."""
        if of_shape and (array := self.known.shapes.get(name)) is not None:
            return array
        return few_integers(self.known.constants.get(name))

    # Branches

    def _taken_branch(self, node: Node) -> Graph | None:
        """The branch of an If whose condition is a constant."""
        if node.op_type != "If" or node.domain not in STANDARD_DOMAINS or len(node.input) != 1:
            return None
        self._compute()
        condition = self.known.constants.get(node.input[0])
        if condition is None or condition.data_type != dtypes.BOOL or dtypes.count(condition.dims) != 1:
            return None
        return branch_of(node, condition=bool(condition.numpy().ravel()[0]))

    def _inlined(self, node: Node, branch: Graph) -> list[Node]:
        """The nodes of a branch, of which the graph then has the rest."""
        self.whole.branches += 1
        nodes = inlined(node, branch, self.graph, self.whole.names, with_initializers=not self.whole.is_old)
        self.know(branch.initializer)
        return nodes


def _nbytes(tensor: Tensor) -> int:
    """The size of the elements; 0 for strings and unknown types."""
    row = dtypes.BY_NUMBER.get(tensor.data_type or 0)
    return 0 if row is None else row.nbytes(tensor.dims)


def _annotating(graph: Graph) -> set[str]:
    """The names of the parameters of quantization annotations."""
    annotations = entries(graph, "quantization_annotation")
    return {entry.value or "" for each in annotations for entry in each.quant_parameter_tensor_names}

"""Multiply-accumulates of a model: of convolutions, products of matrices, recurrent nets and attention.

A node counts as its definition multiplies and adds, whatever an implementation saves. Biases, activations, and all that
works on single elements, such as Mul, BatchNormalization and pooling, do not count. A mask does not make attention
cheaper, and a product with zeros counts.

Spec: ONNX operators; the page "Contrib Operators" of onnxruntime for com.microsoft.
"""

from __future__ import annotations

import re
from collections import ChainMap, Counter
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from formats.editing.inference import names_in_dim
from formats.editing.nodes import constant_of_node
from formats.editing.scopes import main_graph, shape_of, subgraphs_of
from formats.editing.versions.operator_sets import version_of
from formats.errors import FormatError
from formats.ir import ONNX, STANDARD_DOMAINS, dtypes
from formats.ir.attributes import attribute_named, label_of
from formats.ir.model import entries
from formats.onnxruntime import MICROSOFT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from formats.ir.model import Dimension, Graph, Model, Node, Tensor

    Dim = int | str | None
    Shapes = Mapping[str, Sequence[Dim]]

DIMS_UNKNOWN: Final = "dims are not known"
NO_RULE: Final = "no rule for this operator"
TOO_MANY: Final = "more than any machine computes"
ROUNDS_UNKNOWN: Final = "the number of rounds is not known, so one counts"
MOST_COUNTED: Final = 1 << 100  # Python prints no number of any length
FIRST_SCAN: Final = 9  # before, a Scan took a batch
# Operators without a rule whose names say that they multiply and add.
_MULTIPLYING = re.compile("^(Linear|DFT|STFT)|MatMul|Gemm|Conv|Attention|LSTM|MoE")


class Uncounted(NamedTuple):
    """A node that is not in the count of multiply-accumulates, or not as often as it runs, and why."""

    node: str
    operator: str
    reason: str

    def to_json(self) -> dict[str, str]:
        """The node in strings."""
        return self._asdict()


class MacCount(NamedTuple):
    """The multiply-accumulates of a model by operator, the most first.

    If dims are not known, `missing_dims` are those to set, by name, such as `batch`, or by an axis of an input, such as
    `images:0`.
    """

    operators: Mapping[str, int]
    uncounted: tuple[Uncounted, ...] = ()
    missing_dims: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Those of all operators."""
        return sum(self.operators.values())

    def to_json(self) -> dict[str, Any]:
        """The count in numbers, strings, lists and dictionaries."""
        return {
            "total": self.total,
            "operators": dict(self.operators),
            "uncounted": [node.to_json() for node in self.uncounted],
            "missing_dims": list(self.missing_dims),
        }


def macs_of(model: Model) -> MacCount:
    """The multiply-accumulates of the main graph and its subgraphs, as far as the model states shapes.

    Of an If, the branch with the most counts.
    """
    graph = main_graph(model)
    work = _Count(version_of(model.opset_import) or 0)
    counts = work.of_graph(graph, ChainMap())
    return MacCount(dict(counts.most_common()), tuple(work.uncounted), tuple(_missing_dims(graph, work.unknown)))


def _missing_dims(graph: Graph, unknown: set[Dim]) -> Iterator[str]:
    """The open dims of inputs that must be known: those with these names, or all, if other dims are not known."""
    constants = {tensor.name for tensor in graph.initializer}
    found: dict[str, None] = {}
    for value in graph.input:
        shape = shape_of(value)
        for axis, dim in enumerate(shape.dim if shape is not None and value.name not in constants else ()):
            if dim.dim_value is None:
                found[dim.dim_param or f"{value.name}:{axis}"] = None
    needed = [{dim, *names_in_dim(dim)} if isinstance(dim, str) else set() for dim in unknown]
    is_all = any(found.keys().isdisjoint(names) for names in needed)
    yield from found if is_all else filter(set().union(*needed).__contains__, found)


class _UnknownDimsError(Exception):
    """A shape that a rule needs is not known; the dims that are not known, if its rank is."""

    def __init__(self, dims: Sequence[Dim] = (None,)) -> None:
        super().__init__()
        self.dims = [dim for dim in dims if not isinstance(dim, int)]


class _Call(NamedTuple):
    """A node, and the shapes that are visible to it."""

    node: Node
    shapes: Shapes

    def sizes(self, name: str) -> tuple[int, ...]:
        """The dims of a value. Raises: _UnknownDimsError."""
        dims = self.shapes.get(name)
        if dims is None:
            raise _UnknownDimsError
        sizes = tuple(dim for dim in dims if isinstance(dim, int))
        if len(sizes) < len(dims):
            raise _UnknownDimsError(dims)
        return sizes

    def has(self, index: int) -> bool:
        """Whether the node has this input."""
        return index < len(self.node.input) and bool(self.node.input[index])

    def input(self, index: int, rank: int = 0) -> tuple[int, ...]:
        """The dims of an input, which has at least this rank. Raises: _UnknownDimsError."""
        return self._with_rank(self.node.input, index, rank)

    def output(self, index: int = 0, rank: int = 0) -> tuple[int, ...]:
        """The dims of an output, likewise. Raises: _UnknownDimsError."""
        return self._with_rank(self.node.output, index, rank)

    def _with_rank(self, names: Sequence[str], index: int, rank: int) -> tuple[int, ...]:
        if index >= len(names) or len(sizes := self.sizes(names[index])) < rank:
            raise _UnknownDimsError
        return sizes

    def number(self, name: str) -> int:
        """An attribute; 0 if it is not there."""
        attribute = attribute_named(self.node, name)
        return 0 if attribute is None else attribute.i or 0

    def numbers(self, name: str) -> list[int]:
        """An attribute that is a list; empty if it is not there."""
        attribute = attribute_named(self.node, name)
        return [] if attribute is None else attribute.ints


def _conv(call: _Call, weight: int = 1) -> int:
    """Each element of the output is a sum over the kernel and the channels of its group."""
    return dtypes.count(call.output()) * dtypes.count(call.input(weight, 2)[1:])


def _conv_transpose(call: _Call) -> int:
    """Each element of the input is multiplied with the kernel for each channel of its group."""
    return dtypes.count(call.input(0)) * dtypes.count(call.input(1, 2)[1:])


def _matmul(call: _Call) -> int:
    """Each element of the output is a sum over the last axis of the first matrix."""
    return dtypes.count(call.output()) * call.input(0, 1)[-1]


def _gemm(call: _Call) -> int:
    """The same, of a matrix that may be transposed."""
    first = call.input(0, 1)
    return dtypes.count(call.output()) * first[-2 if call.number("transA") and len(first) > 1 else -1]


def _packed_matmul(call: _Call) -> int:
    """The weights are packed, and attributes say their size."""
    return dtypes.count(call.input(0)) * call.number("N")


def _recurrent(call: _Call) -> int:
    """Each step multiplies the input with W and the state with R."""
    steps, batch = call.input(0, 2)[:2]
    return steps * batch * (dtypes.count(call.input(1)) + dtypes.count(call.input(2)))


def _attention(call: _Call) -> int:
    """The products of queries and keys, and of their weights and the values, for all heads of the queries."""
    query, key, value = (call.input(index, 3) for index in range(3))
    length = key[-2] + (call.input(4, 3)[-2] if call.has(4) else 0)
    if len(query) == 3:
        heads, value_heads = call.number("q_num_heads"), call.number("kv_num_heads") or 1
        return query[0] * query[1] * length * (query[2] + heads * value[2] // value_heads)
    return dtypes.count(query[:3]) * length * (query[3] + value[-1])


def _projected_attention(call: _Call, past: int = 4) -> int:
    """The input is multiplied with weights first (com.microsoft)."""
    batch, length, _ = call.input(0, 3)[:3]
    columns = call.input(1, 2)[-1]
    query, _, value = (call.numbers("qkv_hidden_sizes") + [columns // 3] * 3)[:3]
    keys = length + (call.input(past, 4)[-2] if call.has(past) else 0)
    return dtypes.count(call.input(0)) * columns + batch * length * keys * (query + value)


def _multi_head_attention(call: _Call) -> int:
    """The queries, keys and values are apart (com.microsoft)."""
    query, key, value = (call.input(index, 3) for index in range(3))
    if not len(query) == len(key) == len(value) == 3:
        raise _UnknownDimsError
    length = key[1] + (call.input(6, 4)[-2] if call.has(6) else 0)
    return query[0] * query[1] * length * (query[2] + value[2])


def _einsum(call: _Call) -> int:
    """The sizes of all letters multiplied, once for each product of two inputs."""
    equation = attribute_named(call.node, "equation")
    text = b"" if equation is None else equation.s or b""
    terms = text.decode(errors="replace").replace(" ", "").partition("->")[0].split(",")
    sizes: dict[str, int] = {}
    for index, term in enumerate(terms):
        dims = call.input(index)
        before, dots, behind = term.partition("...")
        rest = len(dims) - len(before) - len(behind)
        if rest < 0 or (rest and not dots):
            raise _UnknownDimsError
        # The axes of an ellipsis fit from the last one on.
        letters = [*before, *(f"...{axis}" for axis in range(rest, 0, -1)), *behind]
        for letter, size in zip(letters, dims, strict=True):
            sizes[letter] = max(sizes.get(letter, 1), size) if size else 0
    return dtypes.count(sizes.values()) * (len(terms) - 1)


_RULES: Final[dict[str, Callable[[_Call], int]]] = {
    "Conv": _conv,
    "ConvInteger": _conv,
    "CausalConvWithState": _conv,
    "DeformConv": _conv,
    "QLinearConv": lambda call: _conv(call, 3),
    "ConvTranspose": _conv_transpose,
    "MatMul": _matmul,
    "MatMulInteger": _matmul,
    "QLinearMatMul": _matmul,
    "Gemm": _gemm,
    "GRU": _recurrent,
    "LSTM": _recurrent,
    "RNN": _recurrent,
    "Attention": _attention,
    "Einsum": _einsum,
}
_MICROSOFT_RULES: Final[dict[str, Callable[[_Call], int]]] = {
    "FusedConv": _conv,
    "QLinearConv": lambda call: _conv(call, 3),
    "ConvTransposeWithDynamicPads": _conv_transpose,
    "FusedMatMul": _gemm,
    "FusedMatMulActivation": _gemm,
    "FusedGemm": _gemm,
    "GemmFastGelu": _gemm,
    "QGemm": _gemm,
    "DynamicQuantizeMatMul": _matmul,
    "MatMulInteger16": _matmul,
    "MatMulIntegerToFloat": _matmul,
    "MatMulBnb4": _packed_matmul,
    "MatMulFpQ4": _packed_matmul,
    "MatMulNBits": _packed_matmul,
    "DynamicQuantizeLSTM": _recurrent,
    "Attention": _projected_attention,
    "QAttention": lambda call: _projected_attention(call, 8),
    "MultiHeadAttention": _multi_head_attention,
}


class _Count:
    """The nodes that could not be counted, and the dims that were not known."""

    def __init__(self, version: int) -> None:
        self.version = version
        self.scalars: dict[str, Tensor] = {}  # constants with one element
        self.uncounted: list[Uncounted] = []
        self.unknown: set[Dim] = set()

    def of_graph(self, graph: Graph, outer: ChainMap[str, Sequence[Dim]]) -> Counter[str]:
        """The multiply-accumulates of the nodes of a graph, by operator; `outer` has the shapes around it."""
        shapes = outer.new_child(dict(_shapes(graph)))
        constants = (*graph.initializer, *filter(None, map(constant_of_node, graph.node)))
        self.scalars.update((tensor.name or "", tensor) for tensor in constants if dtypes.count(tensor.dims) == 1)
        counts: Counter[str] = Counter()
        for node in graph.node:
            call = _Call(node, shapes)
            inner = [self.of_graph(subgraph, shapes) for _, subgraph in subgraphs_of(node)]
            if inner:
                counts.update(self._of_inner(call, inner))
            else:
                self._of_node(call, counts)
        return counts

    def _of_node(self, call: _Call, counts: Counter[str]) -> None:
        """Count a node without subgraphs."""
        node, domain, operator = call.node, call.node.domain or ONNX, call.node.op_type or ""
        name = operator if domain in STANDARD_DOMAINS else f"{domain}.{operator}"
        rules = _RULES if domain in STANDARD_DOMAINS else _MICROSOFT_RULES if domain == MICROSOFT else {}
        if (rule := rules.get(operator)) is not None:
            try:
                count = rule(call)
            except _UnknownDimsError as unknown:
                self.unknown.update(unknown.dims)
                self._leave_out(node, name, DIMS_UNKNOWN)
                return
            if count < MOST_COUNTED:
                counts[name] += count
            else:
                self._leave_out(node, name, TOO_MANY)
        elif _MULTIPLYING.search(operator) or not (domain == ONNX or domain.startswith(("ai.onnx.", MICROSOFT))):
            self._leave_out(node, name, NO_RULE)

    def _leave_out(self, node: Node, operator: str, reason: str) -> None:
        name = label_of(node)
        self.uncounted.append(Uncounted(name, operator, reason))

    def _of_inner(self, call: _Call, inner: Sequence[Counter[str]]) -> Counter[str]:
        """The count of a node by those of its subgraphs."""
        if call.node.op_type == "If":
            return max(inner, key=lambda counts: sum(counts.values()))
        counts = sum(inner, Counter[str]())
        if not counts:
            return counts
        rounds = self._rounds(call)
        if rounds is None:
            self._leave_out(call.node, call.node.op_type or "", ROUNDS_UNKNOWN)
            return counts
        if counts.total() * rounds >= MOST_COUNTED:
            self._leave_out(call.node, call.node.op_type or "", TOO_MANY)
            return Counter()
        return Counter({name: count * rounds for name, count in counts.items()})

    def _rounds(self, call: _Call) -> int | None:
        """How often the graph of a node runs, if that is known."""
        node = call.node
        if node.op_type == "Loop" and node.input and (tensor := self.scalars.get(node.input[0])) is not None:
            try:
                array = tensor.numpy()
            except (FormatError, OSError, ValueError):  # the data are not there
                return None
            return max(int(array.reshape(-1)[0]), 0) if array.dtype.kind in "iu" else None
        count = call.number("num_scan_inputs")
        if node.op_type == "Scan" and self.version >= FIRST_SCAN and 0 < count <= len(node.input):
            axis = (call.numbers("scan_input_axes") or [0])[0]
            dims = call.shapes.get(node.input[-count], ())
            size = dims[axis] if -len(dims) <= axis < len(dims) else None
            if isinstance(size, int):
                return size
            self.unknown.add(size)
        return None


def _shapes(graph: Graph) -> Iterator[tuple[str, Sequence[Dim]]]:
    """The dims of the values of a graph whose rank is known."""
    for value in (*graph.input, *entries(graph, "value_info"), *graph.output):
        if (shape := shape_of(value)) is not None:
            yield value.name or "", [*map(dim_of, shape.dim)]
    for tensor in graph.initializer:
        yield tensor.name or "", [*tensor.dims]


def dim_of(dim: Dimension) -> Dim:
    """A size, a name, or `None`; some exporters write -1 for a dim that is not known."""
    if dim.dim_value is None:
        return dim.dim_param or None
    return None if dim.dim_value < 0 else dim.dim_value

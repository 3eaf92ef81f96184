"""Graphs with operators of onnxruntime on blocks of channels, or with the channels last, in the usual layout.

A blocked value has its channels in blocks of 8 or 16, as many as the vector registers hold of the machine that wrote
the file; the last block is filled up with zeros. The weights of a convolution are in the same order. The file does not
say which number it is. It follows from the numbers of channels, if one of them fills its blocks only in one of the two
ways, or from the zeros that fill up a block of weights. If neither shows it, then only the user can know it.

Spec: onnxruntime, core/graph/contrib_ops/nchwc_schema_defs.cc, core/optimizer/nchwc_transformer.cc,
core/graph/contrib_ops/internal_nhwc_onnx_schemas.cc.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from formats.errors import UnsupportedError
from formats.ir.attributes import attribute_named, get_int
from formats.ir.dtypes import FLOAT
from formats.ir.model import Attribute, AttributeType, Node, Tensor
from formats.ir.node_order import mentioned, subgraphs
from formats.ir.storage import from_numpy, raw_source, with_elements
from formats.onnxruntime import ACTIVATIONS, BLOCKED, CHANNELS_LAST
from formats.tensordata.sources.transform import Transform

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from formats.ir.model import Graph, ValueInfo
    from formats.ir.node_order import Names
    from formats.tensordata.sources.source import Source
    from formats.tensordata.sources.transform import Array, Buffer

SIZES: Final = (8, 16)  # of blocks
REMEDY: Final = 'let onnxruntime save the model at the level "extended", or convert the original model'
FLOAT_BYTES: Final = 4
ALIGNED: Final = 4  # onnxruntime brings only multiples of so many channels into blocks
LEAST_TAPS: Final = 8  # of a channel; zeros in fewer of them may be chance

REORDER: Final = ("ReorderInput", "ReorderOutput")
POOLS: Final = ("MaxPool", "AveragePool", "GlobalMaxPool", "GlobalAveragePool")
# The operators of other domains that onnxruntime lets compute on blocked values, element by element.
OF_ONE_VALUE: Final = ("Elu", "FastGelu", "Gelu", "HardSigmoid", "LeakyRelu", "QuickGelu", "Relu", "Sigmoid", "Tanh")
ELEMENTWISE: Final = (*OF_ONE_VALUE, "Add", "Mul", "Sum")
CLIP_OF_INPUTS: Final = 11  # the operator set from which on its limits are inputs
HARD_SWISH: Final = 14  # the first operator set that has it
FUSED: Final = ("activation", "activation_params")
# The operators that have the channels last only in their first input and first output.
TRAFFIC: Final = (
    *("AveragePool", "GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool", "LpPool", "MaxPool"),
    *("Conv", "ConvInteger", "ConvTranspose", "QLinearConv", "BatchNormalization", "InstanceNormalization", "LRN"),
    *("DepthToSpace", "SpaceToDepth"),
)
# Attributes without an effect, which old versions of the operators do not have.
DEFAULTS: Final[dict[str, tuple[Any, ...]]] = {"ceil_mode": (0,), "storage_order": (0,), "dilations": ([1, 1],)}


class Channels(NamedTuple):
    """The channels that a convolution reads for each group, and all that it makes, without those that fill blocks."""

    read: int
    made: int


class Conv(NamedTuple):
    """A convolution on blocks: what its weights and its result say of channels."""

    where: str
    node: Node
    weight: Tensor
    group: int
    reads_blocks: bool
    is_depthwise: bool

    @property
    def is_square(self) -> bool:
        """Whether the weights are in blocks of input channels, too."""
        return self.reads_blocks and not self.is_depthwise

    def fits(self, block: int, channels: Channels) -> bool:
        """Whether onnxruntime would have written this convolution for blocks of this size."""
        # onnxruntime fills the output channels to whole blocks, and the input channels only if it reads blocks.
        filled, inner = self.weight.dims[:2]
        if filled != _filled(channels.made, block):
            return False
        if self.is_square:
            has_block = self.group > 1 or channels.read >= block  # it reads fewer channels in the usual layout
            return has_block and inner == _filled(channels.read, block) and filled // self.group % block == 0
        return self.is_depthwise or inner < block


class Blocks(NamedTuple):
    """The graphs of a model that have blocked values, and how many channels a block may have."""

    graphs: tuple[_Values, ...]
    sizes: tuple[int, ...]  # none, if no weights are in blocks
    nodes: int
    where: str  # the first of them


def blocks_of(graphs: Iterable[tuple[str, Graph]]) -> Blocks:
    """What the nodes on blocks say of their channels.

    Raises: UnsupportedError if a node has a form that is not known, or no number of channels is possible.
    """
    blocked = tuple(_Values(graph, where) for where, graph in graphs if any(n.domain == BLOCKED for n in graph.node))
    places = [place for values in blocked for place in values.places]
    convs = [(conv, values.channels(conv)) for values in blocked for conv in values.convs]
    sizes = {size for size in SIZES if convs and all(conv.fits(size, channels) for conv, channels in convs)}
    if convs and not sizes:
        raise _refused(convs[0][0].where, "its weights do not fill blocks of 8 or 16 channels")
    if len(sizes) > 1:
        sizes = {size for size in SIZES if any(_is_filled_up(conv, size) for conv, _ in convs)} or sizes
    return Blocks(blocked, tuple(sorted(sizes)), len(places), places[0] if places else "graph")


def _filled(channels: int, block: int) -> int:
    """The number of channels in whole blocks."""
    return -(-channels // block) * block


def _refused(where: str, reason: str) -> UnsupportedError:
    return UnsupportedError(f"{reason}: {REMEDY}", where=where, reason=reason, remedy=REMEDY)


class _Values:
    """The blocked values of one graph, in sets that have the same number of channels."""

    def __init__(self, graph: Graph, where: str) -> None:
        self.graph = graph
        self.convs: list[Conv] = []
        self.places: list[str] = []
        self._set_of: dict[str, str] = {}
        self._stated: dict[str, set[int]] = {}  # the numbers of channels of sets
        self._filled: dict[str, set[int]] = {}  # the same, perhaps with those that fill up the last block
        self._tensors = {tensor.name: tensor for tensor in graph.initializer}
        self._types = {value.name: value for value in (*graph.value_info, *graph.input, *graph.output)}
        self._inputs = {value.name for value in graph.input}
        self._undeclared: list[str] = []  # values brought into blocks whose channels nothing declares
        for index, node in enumerate(graph.node):
            place = f"{where}.node[{index}]"
            if node.domain == BLOCKED:
                self.places.append(place)
                self._look(node, place)
            elif not self._set_of.keys().isdisjoint(node.input):
                self._pass_on(node, place)
        # A value in a subgraph or an output would show the layout to somebody who does not expect it.
        for index, _, _ in subgraphs(graph.node):
            if not self._set_of.keys().isdisjoint(mentioned(graph.node[index])):
                raise _refused(f"{where}.node[{index}]", "it has a graph that reads a blocked value")
        if blocked := sorted(value.name or "" for value in graph.output if value.name in self._set_of):
            raise _refused(where, f"the output {blocked[0]!r:.80} is a blocked value")
        for name in self._set_of:
            self._channels(name, 0, where)

    def has(self, name: str) -> bool:
        """Whether a value is blocked."""
        return name in self._set_of

    def channels(self, conv: Conv) -> Channels:
        """The channels of a convolution."""
        read = conv.weight.dims[1]
        if conv.is_square and conv.group == 1:
            read = self._channels(conv.node.input[0], read, conv.where)
        return Channels(read, self._channels(conv.node.output[0], conv.weight.dims[0], conv.where))

    def find_undeclared(self, block: int) -> None:
        """Take the channels that nothing declares from the weights that read them: what fills a block is zero."""
        roots = {self._root(name) for name in self._undeclared} - self._stated.keys()
        for conv in self.convs:
            if conv.is_square and conv.group == 1 and (root := self._root(conv.node.input[0])) in roots:
                self._stated[root] = {max([_channels_read(conv, block), *self._stated.get(root, ())])}

    def _channels(self, name: str, default: int, where: str) -> int:
        root = self._root(name)
        numbers = self._stated.get(root) or self._filled.get(root) or {default}
        if len(numbers) > 1:
            raise _refused(where, f"{name!r:.80} has {' or '.join(map(str, sorted(numbers)))} channels")
        return next(iter(numbers))

    def _look(self, node: Node, where: str) -> None:
        """Note what an operator on blocks says of the channels of its values."""
        if not node.input or not node.output or any(node.output[1:]):
            raise _refused(where, f"{node.op_type} has inputs or outputs that are not known")
        first, result = node.input[0], node.output[0]
        if node.op_type == "ReorderInput":
            self._join(result)
            declared = _channels_of(self._types.get(first), -1 if get_int(node, "channels_last") else 1)
            if declared is not None:
                self._state(result, declared, self._stated)
            else:
                self._undeclared.append(result)
            return
        if node.op_type == "Conv":
            self._look_at_conv(node, where)
        elif not self.has(first) or node.op_type not in (*POOLS, "Upsample", "ReorderOutput"):
            raise _refused(where, f"{node.op_type} has a form on blocks that is not known")
        elif node.op_type == "ReorderOutput":
            self._state(first, get_int(node, "channels"), self._stated)
        else:
            self._join(result, first)

    def _look_at_conv(self, node: Node, where: str) -> None:
        first, result = node.input[0], node.output[0]
        weight = self._tensors.get(node.input[1]) if len(node.input) > 1 else None
        bias = self._tensors.get(node.input[2]) if any(node.input[2:3]) else None
        if weight is None or (bias is None and any(node.input[2:3])) or not self._inputs.isdisjoint(node.input[1:3]):
            raise _refused(where, "its weights are no constants of this graph")
        sizes, group = weight.dims, get_int(node, "group", 1)
        if len(sizes) != 4 or min(sizes) < 1 or {weight.data_type, bias.data_type if bias else FLOAT} != {FLOAT}:
            raise _refused(where, "its weights are no images of float32")
        if bias is not None and bias.dims != sizes[:1]:
            raise _refused(where, "its bias has another number of channels than its weights")
        is_depthwise = group > 1 and sizes[1] == 1 and sizes[0] == group
        conv = Conv(where, node, weight, group, self.has(first), is_depthwise)
        if group < 1 or (group > 1 and not conv.reads_blocks):
            raise _refused(where, f"its {group} groups do not read blocks")
        self._join(result, *([first] if is_depthwise else []), *filter(None, node.input[3:4]))
        if conv.is_square:
            self._state(first, sizes[1] * group, self._filled if group == 1 else self._stated)
        self.convs.append(conv)

    def _pass_on(self, node: Node, where: str) -> None:
        """Note that an operator of another domain computes on blocked values."""
        is_concat = node.op_type == "Concat" and get_int(node, "axis") == 1
        if (node.op_type not in ELEMENTWISE and not is_concat) or not all(map(self.has, node.input)):
            raise _refused(where, f"{node.op_type} reads a blocked value, and its meaning there is not known")
        self._join(node.output[0], *([] if is_concat else node.input))

    def _root(self, name: str) -> str:
        while (above := self._set_of.setdefault(name, name)) != name:
            self._set_of[name] = name = self._set_of[above]
        return name

    def _join(self, name: str, *others: str) -> None:
        """Note that blocked values have the same channels."""
        for other in others:
            first, second = self._root(name), self._root(other)
            if first != second:
                self._set_of[second] = first
                for by_set in (self._stated, self._filled):
                    by_set.setdefault(first, set()).update(by_set.pop(second, ()))
        self._root(name)

    def _state(self, name: str, channels: int, by_set: dict[str, set[int]]) -> None:
        by_set.setdefault(self._root(name), set()).add(channels)


def unblock(values: _Values, block: int, version: int, names: Names) -> None:
    """Write the nodes of a graph in the usual layout, in place; `version` is that of ONNX's operators in the model."""
    values.find_undeclared(block)
    graph, called = values.graph, _called(values)
    uses = Counter(name for node in graph.node for name in node.input)
    uses.update(value.name or "" for value in graph.output)
    uses.update(name for index, _, _ in subgraphs(graph.node) for name in mentioned(graph.node[index]))
    weights = _Weights(graph, uses, names)
    convs = {id(conv.node): conv for conv in values.convs}
    nodes: list[Node] = []
    for node in graph.node:
        if node.domain == BLOCKED and node.op_type in REORDER:
            nodes += _reordered(node, called)
            continue
        conv = convs.get(id(node))
        channels = values.channels(conv) if conv else Channels(0, 0)
        node.input = [called.get(name, name) for name in node.input]
        node.output = [called.get(name, name) for name in node.output]
        if conv is not None:
            nodes += _convolution(conv, channels, weights.of(conv, channels, block), _Making(names, weights, version))
        elif node.domain == BLOCKED:
            nodes += _upsampled(node, version, weights) if node.op_type == "Upsample" else [_standard(node)]
        else:
            nodes.append(node)
    graph.node = nodes
    graph.initializer = weights.tensors()
    graph.value_info = [value for value in graph.value_info if not values.has(value.name or "")]


def _called(values: _Values) -> dict[str, str]:
    """The names that blocked values get: those of the values in the usual layout from or to which they are brought."""
    called: dict[str, str] = {}
    for node in values.graph.node:
        if node.domain == BLOCKED and node.op_type in REORDER and not get_int(node, "channels_last"):
            is_input = node.op_type == "ReorderInput"
            blocked, usual = (node.output[0], node.input[0]) if is_input else (node.input[0], node.output[0])
            called.setdefault(blocked, usual)
    return called


def _reordered(node: Node, called: dict[str, str]) -> list[Node]:
    """What is left of a node that only brings a value into another layout."""
    data, result = called.get(node.input[0], node.input[0]), called.get(node.output[0], node.output[0])
    if get_int(node, "channels_last"):
        return [_transpose(data, result, [0, 3, 1, 2] if node.op_type == "ReorderInput" else [0, 2, 3, 1])]
    return [] if data == result else [Node(op_type="Identity", input=[data], output=[result])]


def _standard(node: Node) -> Node:
    """A node as ONNX's operator of the same name."""
    node.domain = ""
    node.attribute = [
        attribute for attribute in node.attribute if _value(attribute) not in DEFAULTS.get(attribute.name or "", ())
    ]
    return node


def _value(attribute: Attribute) -> Any:
    return attribute.i if attribute.type == AttributeType.INT else attribute.ints


class _Making(NamedTuple):
    """What new nodes need: names, constants, and the version of ONNX's operators."""

    names: Names
    weights: _Weights
    version: int


def _convolution(conv: Conv, channels: Channels, weights: list[str], making: _Making) -> list[Node]:
    """Conv, and what was fused with it: a sum and an activation."""
    node, result = conv.node, conv.node.output[0]
    activation = attribute_named(node, "activation")
    params = attribute_named(node, "activation_params")
    other = node.input[3] if len(node.input) > 3 else ""
    node.attribute = [attribute for attribute in node.attribute if attribute.name not in FUSED]
    if conv.is_depthwise:
        node.attribute = [attribute for attribute in node.attribute if attribute.name != "group"]
        node.attribute.append(Attribute(name="group", type=AttributeType.INT.value, i=channels.made))
    node.input, node.domain = [node.input[0], *weights], ""
    after: list[Node] = []
    if other:
        after.append(Node(op_type="Add", input=["", other], output=[result]))
    if activation is not None:
        name = (activation.s or b"").decode("utf-8", "replace")
        after.append(_activation(name, list(params.floats) if params else [], conv.where, making))
    for before, then in zip([node, *after], after, strict=False):
        before.output = [making.names.new(f"{result}/{before.op_type}")]
        then.input = [before.output[0], *then.input[1:]]
        then.output = [result]
    return [node, *after]


def _activation(name: str, params: list[float], where: str, making: _Making) -> Node:
    """The node of an activation, without its first input."""
    if name == "Clip" and len(params) == 2 and making.version >= CLIP_OF_INPUTS:
        return Node(
            op_type=name, input=["", *(making.weights.add(np.array(limit, "<f4"), "limit") for limit in params)]
        )
    if name not in ACTIVATIONS or (name == "HardSwish" and making.version < HARD_SWISH):
        raise _refused(where, f"its activation {name!r:.40} is not known")
    values = zip(ACTIVATIONS[name], params, strict=False)
    return Node(
        op_type=name, attribute=[Attribute(name=key, type=AttributeType.FLOAT.value, f=value) for key, value in values]
    )


def _upsampled(node: Node, version: int, weights: _Weights) -> list[Node]:
    """Resize with a constant for the scales."""
    scales, mode = attribute_named(node, "scales"), attribute_named(node, "mode")
    way = attribute_named(node, "coordinate_transformation_mode")
    sizes = weights.add(np.array(scales.ints if scales else [], "<f4"), f"{node.output[0]}/scales")
    is_nearest = mode is None or mode.s == b"nearest"
    node.op_type, node.domain = "Resize" if version >= 10 else "Upsample", ""
    node.attribute = [
        Attribute(name="mode", type=AttributeType.STRING.value, s=b"nearest" if is_nearest else b"linear")
    ]
    if version < 11:
        node.input = [node.input[0], sizes]
        return [node]
    words = {"coordinate_transformation_mode": b"asymmetric", "nearest_mode": b"floor"} if is_nearest else {}
    if not is_nearest and way is not None:
        words = {"coordinate_transformation_mode": way.s or b""}
    node.attribute += (Attribute(name=name, type=AttributeType.STRING.value, s=word) for name, word in words.items())
    regions = "" if version >= 13 else weights.add(np.zeros(0, "<f4"), f"{node.output[0]}/roi")
    node.input = [node.input[0], regions, sizes]
    return [node]


class _Weights:
    """The constants of a graph, with those of convolutions in the usual layout."""

    def __init__(self, graph: Graph, uses: Counter[str], names: Names) -> None:
        self._graph, self._uses, self._names = graph, uses, names
        self._made: dict[tuple[str, bool, int, int], Tensor] = {}
        self._replaced_uses = Counter[str]()  # the uses of a constant as it was that are gone
        self._added: list[Tensor] = []

    def of(self, conv: Conv, channels: Channels, block: int) -> list[str]:
        """The names of the weights and of the bias of a convolution."""
        weight, bias = conv.weight, conv.node.input[2] if any(conv.node.input[2:3]) else ""
        sizes = [channels.made, channels.read, *weight.dims[2:]]
        names = [self._tensor(weight, (conv.is_square, *channels), _unblocked(conv, channels, block), sizes)]
        if bias:
            (tensor,) = (tensor for tensor in self._graph.initializer if tensor.name == bias)
            names.append(
                self._tensor(tensor, (False, 0, channels.made), _first(tensor, channels.made), [channels.made])
            )
        return names

    def _tensor(self, tensor: Tensor, form: tuple[bool, int, int], source: Source, sizes: Sequence[int]) -> str:
        name = tensor.name or ""
        self._replaced_uses[name] += 1
        if (key := (name, *form)) not in self._made:
            made = with_elements(tensor, source)
            made.dims = list(sizes)
            self._made[key] = made
            is_first = sum(other == name for other, _, _, _ in self._made) == 1
            made.name = name if is_first and self._is_alike(name) else self._names.new(name)
        return self._made[key].name or ""

    def _is_alike(self, name: str) -> bool:
        """Whether only convolutions on blocks use a constant, once: then its name stays."""
        return self._uses[name] == 1

    def add(self, array: Array, name: str) -> str:
        """The name of a new constant."""
        self._added.append(from_numpy(array, self._names.new(name)))
        return self._added[-1].name or ""

    def tensors(self) -> list[Tensor]:
        """All constants of the graph: each in its place, if it is needed, and then those made of it."""
        made: dict[str, list[Tensor]] = {}
        for (name, _, _, _), tensor in self._made.items():
            made.setdefault(name, []).append(tensor)
        tensors: list[Tensor] = []
        for tensor in self._graph.initializer:
            name = tensor.name or ""
            if self._replaced_uses[name] < self._uses[name] or not self._replaced_uses[name]:
                tensors.append(tensor)
            tensors += made.get(name, ())
        return tensors + self._added


def _unblocked(conv: Conv, channels: Channels, block: int) -> Source:
    """The bytes of the weights in the usual order, of these channels of them."""
    _, inner, height, width = conv.weight.dims
    filled, kept = (count * height * width * FLOAT_BYTES for count in (inner, channels.read))
    apply = partial(_in_order, dims=(inner, height, width), block=block, is_square=conv.is_square, read=channels.read)
    transform = Transform("weights in the usual order", filled * block, kept * block, apply)
    return transform.of(raw_source(conv.weight), kept * channels.made)


def _first(tensor: Tensor, channels: int) -> Source:
    """The bytes of the first elements of a bias."""
    return raw_source(tensor).slice(0, channels * FLOAT_BYTES)


def _in_order(data: Buffer, dims: tuple[int, int, int], block: int, is_square: bool, read: int) -> Array:
    """Weights in the usual order: output channels, the first `read` input channels, height, width."""
    inner, height, width = dims
    array = np.frombuffer(data, "<f4")
    if is_square:
        array = array.reshape(-1, inner // block, height, width, block, block).transpose(0, 5, 1, 4, 2, 3)
    else:
        array = array.reshape(-1, inner, height, width, block).transpose(0, 4, 1, 2, 3)
    return np.ascontiguousarray(array.reshape(-1, inner, height, width)[:, :read])


# Channels last


def moved(node: Node, graph: Graph, names: Names) -> list[Node]:
    """A node that has the channels last as ONNX's operator between two Transposes; others as they are."""
    if node.domain != CHANNELS_LAST or node.op_type not in TRAFFIC or any(node.output[1:]):
        return [node]
    rank = _rank(node, graph)
    if rank is None or rank < 3 or not node.input:
        return [node]
    data, result = node.input[0], node.output[0]
    first, last = names.new(f"{result}/channels_first"), names.new(f"{result}/channels_second")
    node.input[0], node.output[0], node.domain = first, last, ""
    there, back = [0, rank - 1, *range(1, rank - 1)], [0, *range(2, rank), 1]
    return [_transpose(data, first, there), node, _transpose(last, result, back)]


def _rank(node: Node, graph: Graph) -> int | None:
    """The number of axes of a node's first input or first output, if the node or the graph says it."""
    for attribute in node.attribute:
        if attribute.name == "kernel_shape":
            return len(attribute.ints) + 2
    names = {node.input[0] if node.input else "", node.output[0]} - {""}
    for value in (*graph.value_info, *graph.input, *graph.output):
        if value.name in names and value.type and value.type.tensor_type and value.type.tensor_type.shape:
            return len(value.type.tensor_type.shape.dim)
    return None


def _transpose(data: str, result: str, order: list[int]) -> Node:
    """A Transpose."""
    return Node(
        op_type="Transpose",
        input=[data],
        output=[result],
        attribute=[Attribute(name="perm", type=AttributeType.INTS.value, ints=order)],
    )


# The size of a block


def _is_filled_up(conv: Conv, size: int) -> bool:
    """Whether, in blocks of this size, the last channels of the weights are zeros, and no other number is zero.

    In the order of another size, the zeros would be in some taps of a channel, and not in others.
    """
    taps, filled = prod(conv.weight.dims[1:]), conv.weight.dims[0]
    if taps < LEAST_TAPS:
        return False
    nbytes = taps * size * FLOAT_BYTES
    start = (filled - size) * taps * FLOAT_BYTES
    data = raw_source(conv.weight).slice(start, nbytes).read()
    inner, height, width = conv.weight.dims[1:]
    is_zero = _in_order(data, (inner, height, width), size, conv.is_square, inner).reshape(size, taps) == 0
    zeros = int(is_zero.all(axis=1).sum())
    return 0 < zeros < size and bool(is_zero[size - zeros :].all()) and not is_zero[: size - zeros].any()


def _channels_read(conv: Conv, block: int) -> int:
    """The input channels of weights without those at the end that are all zero, as a multiple of `ALIGNED`."""
    _, inner, height, width = conv.weight.dims
    in_order = _in_order(raw_source(conv.weight).read(), (inner, height, width), block, True, inner)
    last = int(np.flatnonzero(in_order.any(axis=(0, 2, 3))).max(initial=0))
    return _filled(last + 1, ALIGNED)


def _channels_of(value: ValueInfo | None, axis: int) -> int | None:
    """The channels that the type of a value declares."""
    if value is None or value.type is None or value.type.tensor_type is None or value.type.tensor_type.shape is None:
        return None
    dims = value.type.tensor_type.shape.dim
    return dims[axis].dim_value if len(dims) == 4 else None

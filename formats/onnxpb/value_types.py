"""The types of values without their shapes, as far as a model states them and its operators say them.

A type is written as in ONNX's operator sets: `tensor(float)`, `seq(tensor(float))`, `map(string,float)`.

The package `onnx` also infers shapes: `inference` asks it.

Spec: ONNX operators; the page "Contrib Operators" of onnxruntime for com.microsoft.
"""

from __future__ import annotations

from collections import ChainMap
from itertools import zip_longest
from typing import TYPE_CHECKING, Final, NamedTuple

from formats.ir import MACHINE_LEARNING, ONNX, STANDARD_DOMAINS, TRAINING, walk
from formats.ir.attributes import attribute_named
from formats.ir.dtypes import BY_NAME, BY_NUMBER
from formats.ir.model import Model, OptionalType, SequenceType, TensorType, Type, entries
from formats.onnxpb.operator_sets import signature_of
from formats.onnxruntime import MICROSOFT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from formats.ir.model import Graph, Model, Node, ValueInfo
    from formats.onnxpb.operator_sets import TypeSignature

    Versions = Mapping[str, int]
    Found = dict[int, dict[str, str]]  # the types by the `id` of their graph and by name

FLOAT, INT64 = "tensor(float)", "tensor(int64)"
# The outputs of operators that ONNX's sets do not have: the input that has the same type, or the type. The last stands
# for all that follow.
_ROWS: Final = {
    "0": (
        "Attention BiasAdd BiasGelu BiasSoftmax BiasSplitGelu CDist ComplexMul ComplexMulConj "
        "ConvTransposeWithDynamicPads CropAndResize DecoderMaskedMultiHeadAttention DecoderMaskedSelfAttention "
        "DynamicQuantizeLSTM DynamicQuantizeMatMul ExpandDims FastGelu FusedConv FusedGemm FusedMatMul "
        "FusedMatMulActivation GatedRelativePositionBias Gelu GemmFastGelu GroupNorm GroupQueryAttention Inverse "
        "Irfft LongformerAttention MatMulBnb4 MatMulFpQ4 MatMulNBits MaxpoolWithMask MoE MultiHeadAttention "
        "NhwcConv NhwcFusedConv NhwcMaxPool PackedAttention PackedMultiHeadAttention Pad QLinearAdd "
        "QLinearAveragePool QLinearGlobalAveragePool QLinearLeakyRelu QLinearMul QLinearReduceMean QLinearSigmoid "
        "QLinearSoftmax QMoE QuickGelu RelativePositionBias RestorePadding Rfft RotaryEmbedding SkipGroupNorm "
        "SparseAttention TransposeMatMul Trilu UnfoldTensor"
    ),
    "0 bool": "BiasDropout",
    "0 float float 0": "SkipLayerNormalization SkipSimplifiedLayerNormalization",
    "0 int32": "RemovePadding",
    "1": "DequantizeLinear NGramRepeatBlock QLinearConcat QLinearWhere",
    "1 float": "SimplifiedLayerNormalization",
    "2": "GatherBlockQuantized MatMulIntegerToFloat QAttention QuantizeLinear",
    "2 int32 2": "EmbedLayerNormalization",
}
_MADE: Final = {name: row.split() for row, names in _ROWS.items() for name in names.split()}
# The attributes that say what elements a result has, and what it has without them: "0" is what the first input has.
BY_ATTRIBUTE: Final = {
    "Bernoulli": ("dtype", "0"),
    "BitCast": ("to", ""),
    "BlackmanWindow": ("output_datatype", FLOAT),
    "Cast": ("to", ""),
    "ConstantOfShape": ("value", FLOAT),
    "EyeLike": ("dtype", "0"),
    "HammingWindow": ("output_datatype", FLOAT),
    "HannWindow": ("output_datatype", FLOAT),
    "MelWeightMatrix": ("output_datatype", FLOAT),
    "Multinomial": ("dtype", "tensor(int32)"),
    "RandomNormal": ("dtype", FLOAT),
    "RandomNormalLike": ("dtype", "0"),
    "RandomUniform": ("dtype", FLOAT),
    "RandomUniformLike": ("dtype", "0"),
}
_OF_CONSTANT: Final = {
    "value_float": FLOAT,
    "value_floats": FLOAT,
    "value_int": INT64,
    "value_ints": INT64,
    "value_string": "tensor(string)",
    "value_strings": "tensor(string)",
}


def operator_type_text(kind: Type | None) -> str:
    """A type as ONNX's operator sets write it; empty if it is not known."""
    if kind is None:
        return ""
    if kind.tensor_type is not None:
        return tensor_text(kind.tensor_type.elem_type)
    if kind.sparse_tensor_type is not None:
        return tensor_text(kind.sparse_tensor_type.elem_type, "sparse_tensor")
    if kind.map_type is not None:
        key, value = BY_NUMBER.get(kind.map_type.key_type or 0), operator_type_text(kind.map_type.value_type)
        plain = value[len("tensor(") : -1] if value.startswith("tensor(") else value
        return f"map({key.name.lower()},{plain})" if key is not None and value else ""
    if kind.opaque_type is not None:
        return f"opaque({kind.opaque_type.domain or ''},{kind.opaque_type.name or ''})"
    for word, outer in (("seq", kind.sequence_type), ("optional", kind.optional_type)):
        if outer is not None and (inner := operator_type_text(outer.elem_type)):
            return f"{word}({inner})"
    return ""


def type_of(text: str) -> Type | None:
    """The type that a text says, without a shape: of tensors, and of sequences and optionals of them."""
    if row := BY_NAME.get(_inside(text, "tensor").upper()):
        return Type(tensor_type=TensorType(row.number))
    if inner := type_of(_inside(text, "seq")) if text else None:
        return Type(sequence_type=SequenceType(inner))
    if inner := type_of(_inside(text, "optional")) if text else None:
        return Type(optional_type=OptionalType(inner))
    return None


def tensor_text(number: int | None, word: str = "tensor") -> str:
    """The type of tensors with these elements; empty if they are unknown."""
    row = BY_NUMBER.get(number or 0)
    return "" if row is None else f"{word}({row.name.lower()})"


def is_of_onnxruntime(domain: str, name: str) -> bool:
    """Whether it is an operator of onnxruntime's own that makes floats of the type that it takes."""
    return domain == MICROSOFT and name in _MADE


def value_types(model: Model) -> Found:
    """The types of the values of all graphs that are known, by the `id` of their graph and by name."""
    return {graph: dict(types.maps[0]) for graph, types in _visible_types(model).items()}


def _visible_types(model: Model) -> dict[int, ChainMap[str, str]]:
    """The same, with the types of the graphs around each."""
    types_by_graph: dict[int, ChainMap[str, str]] = {}
    versions: dict[str, int] = {}
    for entry in model.opset_import:
        domain = entry.domain or ONNX
        versions[domain] = max(versions.get(domain, 0), entry.version or 0)
    if model.graph is not None:
        _follow(model.graph, ChainMap(), [], versions, types_by_graph)
    return types_by_graph


class TypeUse(NamedTuple):
    """A type that an operator of ONNX has in a model; `since` is the version in which the operator got its types."""

    operator: str
    since: int
    parameter: str  # of the operator's definition, such as T
    type: str


def type_uses(model: Model) -> set[TypeUse]:
    """The types that ONNX's own operators have in the graphs of a model, as far as they are known."""
    types_by_graph = _visible_types(model)
    version = max((entry.version or 0 for entry in model.opset_import if entry.domain in STANDARD_DOMAINS), default=0)
    uses: set[TypeUse] = set()
    for _, graph in walk.graphs(model):
        types: Mapping[str, str] = types_by_graph.get(id(graph), {})
        for node in graph.node:
            signature = signature_of(ONNX, node.op_type or "", version) if node.domain in STANDARD_DOMAINS else None
            if signature is None:
                continue
            for names, parameters in ((node.input, signature.inputs), (node.output, signature.outputs)):
                for index, name in enumerate(names if parameters else ()):
                    parameter = parameters[min(index, len(parameters) - 1)]
                    if parameter.is_same and (text := types.get(name)):
                        uses.add(TypeUse(node.op_type or "", signature.since, parameter.name, text))
    return uses


def _follow(
    graph: Graph,
    outer: ChainMap[str, str],
    passed_types: Sequence[str],
    versions: Versions,
    types_by_graph: dict[int, ChainMap[str, str]],
) -> list[str]:
    """Find the types in a graph and in its subgraphs; return those of its results.

    `passed_types` are those that the node around it says of its inputs.
    A name of this graph is no value of those around it, even if its type is not known.
    """
    own = dict.fromkeys((value.name or "" for value in graph.input), "")
    own.update((name, "") for node in graph.node for name in node.output)
    own.update((value.name or "", text) for value, text in zip(graph.input, passed_types, strict=False))
    own.update((value.name or "", text) for value in _described(graph) if (text := operator_type_text(value.type)))
    tensors = [*graph.initializer, *(sparse.values for sparse in entries(graph, "sparse_initializer") if sparse.values)]
    own.update((tensor.name or "", text) for tensor in tensors if (text := tensor_text(tensor.data_type)))
    types = outer.new_child(own)
    types_by_graph[id(graph)] = types
    for node in graph.node:
        input_types = [types.get(name, "") for name in node.input]
        inner: dict[str, list[str]] = {}
        for attribute in entries(node, "attribute"):
            if attribute.g is not None:
                passed = _passed(node, input_types, len(attribute.g.input))
                inner[attribute.name or ""] = _follow(attribute.g, types, passed, versions, types_by_graph)
        for name, text in zip(node.output, types_made(node, input_types, inner, versions), strict=False):
            if name and text and not own[name]:
                own[name] = text
    return [types.get(value.name or "", "") for value in graph.output]


def _described(graph: Graph) -> Iterator[ValueInfo]:
    yield from entries(graph, "value_info")
    yield from graph.output
    yield from graph.input


def _passed(node: Node, input_types: list[str], count: int) -> list[str]:
    """The types of the inputs of a graph in a node."""
    if node.op_type == "Loop":
        return [INT64, "tensor(bool)", *input_types[2:]]
    if node.op_type == "Scan":
        return input_types[len(input_types) - count :]  # before version 9, the lengths of the sequences come first
    if node.op_type == "SequenceMap":
        return [_inside(text, "seq") or text for text in input_types]
    return []


def types_made(node: Node, input_types: list[str], inner: Mapping[str, list[str]], versions: Versions) -> list[str]:
    """The types of the outputs of a node whose inputs, and the results of whose graphs, have these types."""
    name, domain, count = node.op_type or "", node.domain or ONNX, len(node.output)
    signature = signature_of(domain, name, versions.get(domain, 0))
    if signature is None:
        # onnxruntime's optimizer writes some of its operators without a domain.
        row = _MADE.get(name) if domain in (MICROSOFT, ONNX) else None
        return [_by_row(row[min(index, len(row) - 1)], input_types) for index in range(count)] if row else []
    own = _RULES.get((domain, name))
    made = [] if own is None else own(node, input_types, inner)
    by_schema = [_by_schema(signature, index, input_types) for index in range(count)]
    return [*(text or other for text, other in zip(made, by_schema, strict=False)), *by_schema[len(made) :]]


def _by_row(word: str, input_types: Sequence[str]) -> str:
    return f"tensor({word})" if not word.isdigit() else input_types[int(word)] if int(word) < len(input_types) else ""


def _by_schema(signature: TypeSignature, index: int, input_types: Sequence[str]) -> str:
    """The type of an output: the only one that it may have, or that of an input with the same name for it."""
    if not signature.outputs:
        return ""
    output = signature.outputs[min(index, len(signature.outputs) - 1)]
    allowed = signature.allowed(output)
    if len(allowed) == 1:
        return next(iter(allowed))
    last = len(signature.inputs) - 1
    inputs = [(text, signature.inputs[min(place, last)]) for place, text in enumerate(input_types) if signature.inputs]
    return next((text for text, parameter in inputs if text and parameter == output and output.is_same), "")


# Operators whose attributes, graphs or containers say what they make


def _by_attribute(node: Node, input_types: list[str], _: object) -> list[str]:
    name, missing = BY_ATTRIBUTE[node.op_type or ""]
    return [_said(node, name) or (_first(input_types) if missing == "0" else missing)]


def _said(node: Node, name: str) -> str:
    """The type that an attribute says, by a number, a text (before version 6) or as that of a tensor."""
    attribute = attribute_named(node, name)
    if attribute is None:
        return ""
    if attribute.t is not None:
        return tensor_text(attribute.t.data_type)
    if attribute.s:
        row = BY_NAME.get(attribute.s.decode(errors="replace"))
        return "" if row is None else tensor_text(row.number)
    return tensor_text(attribute.i)


def _first(input_types: Sequence[str]) -> str:
    return input_types[0] if input_types else ""


def _inside(text: str, word: str) -> str:
    """What a container of this kind holds; empty for another type."""
    return text[len(word) + 1 : -1] if text.startswith(f"{word}(") else ""


def _container(word: str, text: str) -> list[str]:
    return [f"{word}({text})"] if text else []


def _constant(node: Node, *_: object) -> list[str]:
    for attribute in entries(node, "attribute"):
        if attribute.sparse_tensor is not None and attribute.sparse_tensor.values is not None:
            return [tensor_text(attribute.sparse_tensor.values.data_type)]
        if attribute.t is not None or attribute.name in _OF_CONSTANT:
            return [
                tensor_text(attribute.t.data_type) if attribute.t is not None else _OF_CONSTANT[attribute.name or ""]
            ]
    return []


def _quantized(node: Node, input_types: list[str], _: object) -> list[str]:
    return [
        _said(node, "output_dtype") or (input_types[2] if len(input_types) > 2 and node.input[2] else "tensor(uint8)")
    ]


def _dequantized(node: Node, input_types: list[str], _: object) -> list[str]:
    return [_said(node, "output_dtype") or (input_types[1] if len(input_types) > 1 else "")]


def _empty_sequence(node: Node, *_: object) -> list[str]:
    return _container("seq", _said(node, "dtype") or FLOAT)


def _sequence(_: Node, input_types: list[str], __: object) -> list[str]:
    return _container("seq", _first(input_types))


def _element(_: Node, input_types: list[str], __: object) -> list[str]:
    return [_inside(_first(input_types), "seq")]


def _optional(node: Node, input_types: list[str], _: object) -> list[str]:
    attribute = attribute_named(node, "type")
    return _container("optional", _first(input_types) if attribute is None else operator_type_text(attribute.tp))


def _optional_element(_: Node, input_types: list[str], __: object) -> list[str]:
    return [_inside(_first(input_types), "optional") or _first(input_types)]


def _normalized(node: Node, input_types: list[str], _: object) -> list[str]:
    stash = _said(node, "stash_type") or FLOAT
    return [_first(input_types), stash, stash]


def _attended(_: Node, input_types: list[str], __: object) -> list[str]:
    return [_first(input_types), input_types[3] if len(input_types) > 3 and input_types[3] else _first(input_types)]


def _trained(node: Node, input_types: list[str], _: object) -> list[str]:
    count = len(node.output) // (3 if node.op_type == "Adam" else 2)  # of tensors, each with a momentum or two
    return input_types[2 : 2 + count] * 3


def _branch(_: Node, __: object, inner: Mapping[str, list[str]]) -> list[str]:
    one, other = (inner.get(name, []) for name in ("then_branch", "else_branch"))
    return [text or second for text, second in zip(one, other, strict=True)] if len(one) == len(other) else one or other


def _loop(_: Node, input_types: list[str], inner: Mapping[str, list[str]]) -> list[str]:
    made = inner.get("body", [])[1:]  # the first result of a body is its condition
    return [text or other for text, other in zip_longest(made, input_types[2:], fillvalue="")]


def _scan(_: Node, __: object, inner: Mapping[str, list[str]]) -> list[str]:
    return inner.get("body", [])


def _mapped(_: Node, __: object, inner: Mapping[str, list[str]]) -> list[str]:
    return [f"seq({text})" if text else "" for text in inner.get("body", [])]


def _cast_map(node: Node, *_: object) -> list[str]:
    attribute = attribute_named(node, "cast_to")
    word = (attribute.s or b"").decode(errors="replace") if attribute is not None else "TO_FLOAT"
    return [f"tensor({word.removeprefix('TO_').lower()})"]


def _labels(node: Node, *_: object) -> list[str]:
    for attribute in entries(node, "attribute"):
        if attribute.name == "values_tensor" and attribute.t is not None:
            return [tensor_text(attribute.t.data_type)]
        if (word := (attribute.name or "").removeprefix("values_")) in ("floats", "int64s", "strings"):
            return [f"tensor({word.removesuffix('s')})"]
    return []


def _vectorized(_: Node, input_types: list[str], __: object) -> list[str]:
    value = _inside(_first(input_types), "map").partition(",")[2]
    return [f"tensor({value})"] if value else []


_RULES: Final[Mapping[tuple[str, str], Callable[[Node, list[str], Mapping[str, list[str]]], list[str]]]] = {
    **{(ONNX, name): _by_attribute for name in BY_ATTRIBUTE},
    (ONNX, "ConcatFromSequence"): _element,
    (ONNX, "Constant"): _constant,
    (ONNX, "DequantizeLinear"): _dequantized,
    (ONNX, "If"): _branch,
    (ONNX, "LayerNormalization"): _normalized,
    (ONNX, "LinearAttention"): _attended,
    (ONNX, "Loop"): _loop,
    (ONNX, "Optional"): _optional,
    (ONNX, "OptionalGetElement"): _optional_element,
    (ONNX, "QuantizeLinear"): _quantized,
    (ONNX, "Scan"): _scan,
    (ONNX, "SequenceAt"): _element,
    (ONNX, "SequenceConstruct"): _sequence,
    (ONNX, "SequenceEmpty"): _empty_sequence,
    (ONNX, "SequenceMap"): _mapped,
    (ONNX, "SplitToSequence"): _sequence,
    **{(TRAINING, name): _trained for name in ("Adagrad", "Adam", "Momentum")},
    (MACHINE_LEARNING, "CastMap"): _cast_map,
    (MACHINE_LEARNING, "DictVectorizer"): _vectorized,
    (MACHINE_LEARNING, "LabelEncoder"): _labels,
}

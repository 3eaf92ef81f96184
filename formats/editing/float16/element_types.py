"""The types of elements of values where onnx infers none: operators of other domains, and names that hide others.

Spec: the schemas of ONNX; the page "Contrib Operators" of onnxruntime for com.microsoft.
"""

from __future__ import annotations

from collections import ChainMap
from functools import cache
from typing import TYPE_CHECKING, Final, NamedTuple

from formats.editing.operator_sets import known_types
from formats.editing.scopes import main_graph, subgraphs
from formats.ir import walk
from formats.ir.dtypes import BY_NUMBER
from formats.ir.model import entries

if TYPE_CHECKING:
    from collections.abc import Sequence

    from formats.editing.float16.operators import Operators
    from formats.ir.model import Graph, Model, Node

MICROSOFT: Final = ("com.microsoft", "", "ai.onnx")  # onnxruntime's optimizer writes some without a domain
CASTS: Final = {"Cast": "to", "ConstantOfShape": "value", "Constant": "value"}  # attributes with the type, or of it
# The outputs of operators that onnx has no schema for: the input that has the same type, or the type. The last stands
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
MADE: Final = {name: row.split() for row, names in _ROWS.items() for name in names.split()}
_NUMBERS: Final = {f"tensor({row.name.lower()})": number for number, row in BY_NUMBER.items()}


class Signature(NamedTuple):
    """What a schema says of types: the name or type of each input and output, and what each name may be."""

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    allowed: dict[str, tuple[str, ...]]


@cache
def _signature(name: str, version: int, domain: str) -> Signature | None:
    import onnx.defs

    try:
        schema = onnx.defs.get_schema(name, version, domain)
    except onnx.defs.SchemaError:
        return None
    various = onnx.defs.OpSchema.FormalParameterOption.Variadic
    every = [
        # Those that differ among themselves have no common type.
        ["" if each.option == various and not each.is_homogeneous else each.type_str for each in parameters]
        for parameters in (schema.inputs, schema.outputs)
    ]
    allowed = {each.type_param_str: tuple(each.allowed_type_strs) for each in schema.type_constraints}
    return Signature(tuple(every[0]), tuple(every[1]), allowed)


def element_types(model: Model, operators: Operators) -> dict[str, dict[str, int]]:
    """The types of the elements of tensors, by the place of their graph and by name, as far as they are known."""
    found: dict[str, dict[str, int]] = {}
    _follow(main_graph(model), "graph", ChainMap(), operators, found)
    return found


def _follow(
    graph: Graph, where: str, outer: ChainMap[str, int], operators: Operators, found: dict[str, dict[str, int]]
) -> None:
    """Find the types in a graph and in its subgraphs."""
    own = {
        name: type_.tensor_type.elem_type
        for name, type_ in known_types(graph, None)
        if type_.tensor_type is not None and type_.tensor_type.elem_type
    }
    types = outer.new_child(own)
    found[where] = own
    for index, node in enumerate(graph.node):
        branches: list[tuple[Graph, str]] = []
        for name, inner in subgraphs(node):
            attribute = next(each for each in node.attribute if each.name == name)
            place = walk.inner_place(where, "node", index)
            at = walk.inner_place(walk.inner_place(place, "attribute", None, attribute), "g")
            _follow(inner, at, types, operators, found)
            branches.append((inner, at))
        made = _made_by(node, [types.get(name) for name in node.input], operators)
        if node.op_type == "If" and branches:
            inner, at = branches[0]
            made = [found[at].get(each.name or "", types.get(each.name or "")) for each in inner.output]
        for name, number in zip(node.output, made, strict=False):
            if name and number:
                own.setdefault(name, number)


def _made_by(node: Node, given: Sequence[int | None], operators: Operators) -> list[int | None]:
    """The types of the outputs of a node, whose inputs have these types."""
    name, (domain, version) = node.op_type or "", operators.set_of(node)
    if (signature := _signature(name, version, domain)) is None:
        row = MADE.get(name, []) if (node.domain or "") in MICROSOFT else []
        return [_by_row(row[min(index, len(row) - 1)], given) if row else None for index in range(len(node.output))]
    if not domain and name in CASTS:
        attribute = next((each for each in entries(node, "attribute") if each.name == CASTS[name]), None)
        return [None if attribute is None else attribute.t.data_type if attribute.t is not None else attribute.i]
    last = len(signature.outputs) - 1
    return [_by_schema(signature, min(index, last), given) for index in range(len(node.output))]


def _by_row(word: str, given: Sequence[int | None]) -> int | None:
    if word.isdigit():
        return given[int(word)] if int(word) < len(given) else None
    return _NUMBERS[f"tensor({word})"]


def _by_schema(signature: Signature, index: int, given: Sequence[int | None]) -> int | None:
    """The type of an output: the only one that it may have, or that of an input with the same name for it."""
    name = signature.outputs[index] if index >= 0 else ""
    allowed = signature.allowed.get(name, (name,))
    if len(allowed) == 1:
        return _NUMBERS.get(allowed[0])
    last = len(signature.inputs) - 1
    same = (number for place, number in enumerate(given) if number and signature.inputs[min(place, last)] == name)
    return next(same, None)

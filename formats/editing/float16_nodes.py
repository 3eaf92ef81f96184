"""What nodes, values and weights do with float16: which may have it, and who needs a value in the other type.

The elements of weights are converted when they are read, a block at a time. The operators that stay in float32 although
ONNX defines them for float16 are those of the block list of onnxconverter-common 1.16: onnxruntime lacks float16 there,
or results suffer.

Spec: ONNX, Operators.
"""

from __future__ import annotations

import typing
from functools import lru_cache
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from formats.editing.scopes import fresh, subgraphs_of
from formats.editing.surgery import make_attribute
from formats.ir import MACHINE_LEARNING, STANDARD_DOMAINS, domain_key, walk
from formats.ir.attributes import attribute_named
from formats.ir.copies import copied
from formats.ir.dtypes import FLOAT, FLOAT16
from formats.ir.model import entries
from formats.ir.storage import constant_of, from_numpy, with_elements
from formats.onnxpb.operator_sets import signature_of
from formats.onnxpb.value_types import operator_type_text
from formats.tensordata.plan import RANGE, RARE, RESULTS, Loss
from formats.tensordata.sources.source import Literal
from formats.words import counted, in_units

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from formats.ir.model import Attribute, Graph, Node, OperatorSetId, Tensor, Type
    from formats.tensordata.plan import Seen
    from formats.tensordata.sources.transform import Beyond


FloatKind: TypeAlias = typing.Literal[
    "tensor", "container", "other"
]  # a float32 tensor, a sequence or optional of such, or neither
SUFFIXES = {FLOAT: "float32", FLOAT16: "float16"}


class FloatValue:
    """A value: its name in the model, and the types that it has and that others want.

    `native` is the type in which it is made; none yet for a constant, which gets the one that its users want. `public`
    is the one that has the old name. For example, an x that becomes float16, but that a TopK needs in float32, gets
    `wanted` {FLOAT: "graph.node[3] (TopK)"} and `names` {FLOAT16: "x", FLOAT: "x_float32"}.
    """

    def __init__(self, name: str, kind: FloatKind, native: int | None, public: int | None = None) -> None:
        self.name, self.kind, self.native, self.public = name, kind, native, public
        self.is_beyond = False  # a constant that float16 cannot hold
        self.is_exact = False  # its last digits count for sizes and the like
        self.wanted: dict[int, str] = {}  # and the first place that wants each type
        self.names: dict[int, str] = {}

    def settle(self, taken: set[str]) -> None:
        """Choose a type for a constant, and names that are not taken for both types where both are needed."""
        if self.native is None:
            self.native = self.public or (FLOAT16 if FLOAT16 in self.wanted and not self.is_exact else FLOAT)
        public = self.public or self.native
        self.names[public] = self.name
        for other in {self.native, *self.wanted} - {public}:
            name = f"{self.name}_{SUFFIXES[other]}"
            self.names[other] = fresh(name, taken) if name in taken else name
            taken.add(name)

    @property
    def cast_to(self) -> int | None:
        """The type to which it must be cast, besides the one that it has."""
        return next((name for name in self.names if name != self.native), None)

    def named(self, number: int) -> str:
        """The name under which the value has a type; a value that is no float has only one."""
        return self.names[number] if self.kind != "other" else self.name


def float_kind(text: str) -> FloatKind:
    """What a value of this type is; the type is written as in ONNX's operator sets."""
    inner = text
    while inner.startswith(("seq(", "optional(")):
        inner = inner[inner.index("(") + 1 : -1]
    return "other" if inner != "tensor(float)" else "tensor" if inner == text else "container"


def with_element(type_: Type | None, number: int) -> Type | None:
    """The type with another type of elements in place of float32."""
    if type_ is None or float_kind(operator_type_text(type_)) == "other":
        return type_
    new = copied(type_)
    inner: Type | None = new
    while inner is not None and inner.tensor_type is None:
        outer = inner.sequence_type or inner.optional_type
        inner = None if outer is None else outer.elem_type
    if inner is not None and inner.tensor_type is not None:
        inner.tensor_type.elem_type = number
    return new


SMALL_BYTES = 1024  # converted at once
LOST: tuple[tuple[str, str, str, Seen], ...] = (
    ("large", "too large for float16", "65504 with its sign", RESULTS),
    ("unlimited", "so large that they mean no limit", "65504 with its sign", RANGE),
    ("small", "too near zero for float16", "the least one with its sign, 6e-08", RARE),
)


class Halved:
    """The tensors that became float16, and their numbers that float16 cannot hold."""

    def __init__(self) -> None:
        self.count = self.nbytes = 0
        self._found: dict[int, tuple[Tensor, Beyond]] = {}
        self._moved: dict[str, Beyond] = {}

    def beyond(self, tensor: Tensor) -> Beyond:
        """The numbers that float16 cannot hold, which are counted once."""
        from formats.tensordata.sources.transform import beyond_half

        if id(tensor) not in self._found:
            self._found[id(tensor)] = tensor, beyond_half(tensor.source())  # the tensor is held, so its identity stays
        return self._found[id(tensor)][1]

    def of(self, tensor: Tensor, place: str) -> Tensor:
        """A float32 tensor as float16."""
        from formats.tensordata.sources.transform import halve

        source = tensor.source()
        if any(beyond := self.beyond(tensor)):
            self._moved[place] = beyond
        self.count, self.nbytes = self.count + 1, self.nbytes + source.nbytes
        converted = halve().of(source)
        new = with_elements(tensor, Literal(converted.read()) if source.nbytes <= SMALL_BYTES else converted)
        new.data_type = FLOAT16
        return new

    def sentence(self) -> str:
        """What was done."""
        sizes = f"{in_units(self.nbytes)} -> {in_units(self.nbytes // 2)}"
        return f"{counted(self.count, 'weight')} became float16, {sizes}"

    def losses(self) -> Iterator[Loss]:
        """The numbers that became others, apart from rounding."""
        for field, what, became, seen in LOST:
            counts = {place: number for place, beyond in self._moved.items() if (number := getattr(beyond, field))}
            if counts:
                tensors = f"of {counted(len(counts), 'weight')}"
                detail = f"{counted(sum(counts.values()), 'number')} {tensors} {what}; each became {became}"
                yield Loss("dtype", next(iter(counts)), detail, seen)


_STAY: Final = {
    "": (
        "CumSum Max Min NonMaxSuppression RandomUniformLike Range Resize RoiAlign TopK Upsample "
        # not in that list, but onnxruntime makes no float16s with these, nor casts what they make
        "Bernoulli BlackmanWindow EyeLike HammingWindow HannWindow MelWeightMatrix RandomNormal RandomNormalLike "
        "RandomUniform "
        "MeanVarianceNormalization "  # of which onnxruntime makes nodes with float32s
        "BitCast"  # the bits of float32s
    ),
    MACHINE_LEARNING: (
        "ArrayFeatureExtractor Binarizer CastMap CategoryMapper DictVectorizer FeatureVectorizer Imputer LabelEncoder "
        "LinearClassifier LinearRegressor Normalizer OneHotEncoder SVMClassifier SVMRegressor Scaler "
        "TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor ZipMap"
    ),
}
# Operators that stay in float32 if float16 cannot hold a weight of theirs: their results are often smaller.
SCALING: Final = ("BatchNormalization", "Conv", "ConvTranspose", "Div", "Gemm", "MatMul", "Mul", "Pow")
INTEGER_SUMS: Final = ("ConvInteger", "MatMulInteger")  # their INT32 are often beyond the range of float16
REDUCING: Final = ("ScatterElements", "ScatterND")  # with a reduction, onnxruntime has no float16
# Attributes with the type of the output, and their value if they are missing; 0: then an input says it.
TYPE_ATTRIBUTES: Final = {"Cast": ("to", 0), "DequantizeLinear": ("output_dtype", 0), "SequenceEmpty": ("dtype", FLOAT)}
_FLOAT16: Final = frozenset(("tensor(float16)", "seq(tensor(float16))", "optional(tensor(float16))"))
_FLOAT32: Final = frozenset(("tensor(float)", "seq(tensor(float))", "optional(tensor(float))"))


class FloatParameters(NamedTuple):
    """The inputs or outputs of an operator: for each, whether it may be float16, and whether it may be float32."""

    half: tuple[bool, ...]
    single: tuple[bool, ...]

    def is_half(self, index: int) -> bool:
        """Whether a float32 there becomes float16; the last parameter stands for all that follow."""
        return bool(self.half) and self.half[min(index, len(self.half) - 1)]

    def may_be_float(self, index: int) -> bool:
        """Whether a float32 is possible there."""
        return not self.single or self.single[min(index, len(self.single) - 1)]


class FloatForm(NamedTuple):
    """An operator in one version of its set: `is_known` if there is a schema, `stays` if it computes in float32."""

    inputs: FloatParameters = FloatParameters((), ())
    outputs: FloatParameters = FloatParameters((), ())
    is_known: bool = False
    stays: bool = True


def in_float32(form: FloatForm) -> FloatForm:
    """The form of an operator that stays in float32, although it need not."""
    inputs, outputs = (ends._replace(half=(False,) * len(ends.half)) for ends in (form.inputs, form.outputs))
    return FloatForm(inputs, outputs, form.is_known)


def reduces(node: Node) -> bool:
    """Whether a node combines numbers at one place, for which onnxruntime has no float16."""
    reduction = attribute_named(node, "reduction")
    return node.op_type in REDUCING and reduction is not None and reduction.s not in (None, b"none")


def dequantizing(nodes: Sequence[Node]) -> Iterator[Node]:
    """The nodes that scale the sums of a quantised product, which float16 cannot hold: Cast, Mul, and Mul of scales."""
    made = {name: node for node in nodes for name in node.output}
    casts = [
        node
        for node in nodes
        if node.op_type == "Cast" and node.input and _operator(made, node.input[0]) in INTEGER_SUMS
    ]
    sums = {name for node in casts for name in node.output}
    products = [node for node in nodes if node.op_type == "Mul" and sums.intersection(node.input)]
    yield from casts
    yield from products
    yield from (made[name] for node in products for name in node.input if _operator(made, name) == "Mul")


def _operator(made: Mapping[str, Node], name: str) -> str | None:
    """The operator that makes a value, if a node does."""
    return made[name].op_type if name in made else None


class Operators:
    """The operators of a model, in the versions that it imports."""

    def __init__(self, imports: list[OperatorSetId]) -> None:
        self._versions = {domain_key(entry.domain): entry.version or 0 for entry in imports}

    def form_of(self, node: Node) -> FloatForm:
        """The form of a node's operator; one without a schema stays in float32."""
        domain = domain_key(node.domain)
        return _form(node.op_type or "", self._versions.get(domain, 0), domain)


@lru_cache(maxsize=4096)
def _form(name: str, version: int, domain: str) -> FloatForm:
    signature = signature_of(domain, name, version)
    if signature is None:
        return FloatForm()
    inputs = [signature.allowed(parameter) for parameter in signature.inputs]
    outputs = [signature.allowed(parameter) for parameter in signature.outputs]
    every = [types for types in (*inputs, *outputs) if types & _FLOAT32]
    stays = name in _STAY.get(domain, "").split() or not any(types & _FLOAT16 for types in every)
    return FloatForm(_parameters(inputs, stays), _parameters(outputs, stays), True, stays and bool(every))


def _parameters(allowed: list[frozenset[str]], stays: bool) -> FloatParameters:
    return FloatParameters(
        tuple(bool(types & _FLOAT16) and not stays for types in allowed),
        tuple(bool(types & _FLOAT32) for types in allowed),
    )


def inner_graphs(node: Node, place: str) -> Iterator[tuple[Graph, str]]:
    """The graphs in the attributes of the node at a place, each with its own place."""
    for name, inner in subgraphs_of(node):
        attribute = attribute_named(node, name)
        yield inner, walk.inner_place(walk.inner_place(place, "attribute", None, attribute), "g")


def is_constant_node(node: Node) -> bool:
    """Whether a node is a constant, which can have either type."""
    return node.op_type == "Constant" and node.domain in STANDARD_DOMAINS


def in_float16(node: Node, made: FloatValue | None, halved: Halved) -> None:
    """Change the attributes of a node whose first output becomes float16."""
    if made is None or made.kind == "other" or made.native != FLOAT16 or node.domain not in STANDARD_DOMAINS:
        return
    if node.op_type in ("Constant", "ConstantOfShape"):
        node.attribute = [_constant(attribute, made.name, halved) for attribute in node.attribute]
        if not node.attribute and node.op_type == "ConstantOfShape":
            node.attribute = [make_attribute("value", _zero())]
        return
    name, missing = TYPE_ATTRIBUTES.get(node.op_type or "", ("", 0))
    names = {attribute.name for attribute in entries(node, "attribute")}
    if name in names:
        node.attribute = [_typed(attribute, name) for attribute in node.attribute]
    elif missing == FLOAT:
        node.attribute = [*node.attribute, make_attribute(name, FLOAT16)]
    if any(attribute.tp is not None for attribute in entries(node, "attribute")):
        node.attribute = [_with_type(attribute) for attribute in node.attribute]


def _typed(attribute: Attribute, name: str) -> Attribute:
    """The attribute, with float16 in place of float32 if it is the one that names the type."""
    if attribute.name != name or not (attribute.i == FLOAT or attribute.s == b"FLOAT"):  # a text before version 6
        return attribute
    new = copied(attribute)
    if attribute.s is None:
        new.i = FLOAT16
    else:
        new.s = b"FLOAT16"
    return new


def _with_type(attribute: Attribute) -> Attribute:
    if attribute.tp is None:
        return attribute
    new = copied(attribute)
    new.tp = with_element(attribute.tp, FLOAT16)
    return new


def _constant(attribute: Attribute, place: str, halved: Halved) -> Attribute:
    """The value of a constant as float16."""
    if attribute.name in ("value_float", "value_floats") and (numbers := constant_of(attribute)) is not None:
        return make_attribute("value", halved.of(numbers, place))
    new = copied(attribute)
    if new.t is not None and new.t.data_type == FLOAT:
        new.t = halved.of(new.t, place)
    if new.sparse_tensor is not None and new.sparse_tensor.values is not None:
        new.sparse_tensor.values = halved.of(new.sparse_tensor.values, place)
    return new


def _zero() -> Tensor:
    import numpy

    return from_numpy(numpy.zeros(1, "float16"))

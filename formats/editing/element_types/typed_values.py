"""What nodes, values and weights do with a new type: which may have it, and who needs a value in the old type.

The elements of weights are converted when they are read, a block at a time. The operators that stay in float32 although
ONNX defines them for float16 are those of the block list of onnxconverter-common 1.16: onnxruntime lacks float16 there,
or results suffer.

Spec: ONNX, Operators.
"""

from __future__ import annotations

import typing
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from formats.editing.nodes import make_attribute
from formats.editing.scopes import free, subgraphs_of
from formats.ir import MACHINE_LEARNING, STANDARD_DOMAINS, domain_key, walk
from formats.ir.attributes import attribute_named
from formats.ir.copies import copied
from formats.ir.dtypes import BFLOAT16, BY_NUMBER, FLOAT, FLOAT16, INT32, INT64
from formats.ir.model import Tensor, entries
from formats.ir.storage import constant_of, with_elements
from formats.onnxpb.operator_sets import signature_of
from formats.onnxpb.value_types import TypeUse, is_of_onnxruntime, operator_type_text, tensor_text
from formats.tensordata.plan import RANGE, RARE, RESULTS, Loss
from formats.tensordata.sources.source import Literal
from formats.words import counted, in_units

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from formats.ir.model import Attribute, Graph, Node, OperatorSetId, Type
    from formats.onnxpb.operator_sets import Parameter, TypeSignature
    from formats.tensordata.plan import Seen
    from formats.tensordata.sources.transform import Beyond


class ElementType(NamedTuple):
    """A type that a model gets, and what a conversion to it must know.

    What has one of the types `sources` gets the type `number`. Numbers beyond a narrower type become its `largest` or
    `least` one. `most_added` numbers of 32 each have a sum that it holds; 0: any sum. Of some types, ONNX has no
    sequences.
    """

    number: int
    sources: tuple[int, ...]
    largest: str = ""
    least: str = ""
    most_added: int = 0
    in_sequences: bool = True

    @property
    def name(self) -> str:
        """The name that users type."""
        return BY_NUMBER[self.number].numpy_name

    @property
    def kind(self) -> str:
        """The kind of its edits in a report: the option that asked for them."""
        if self.number == INT32:
            return "int32"
        return "dtype" if self.number == FLOAT16 else f"dtype={self.name}"

    @property
    def text(self) -> str:
        """The type of tensors with it, as ONNX's operator sets write it."""
        return tensor_text(self.number)

    @property
    def is_narrower(self) -> bool:
        """Whether floats with more bits become it, and are rounded."""
        return self.number not in (FLOAT, INT32)

    def has(self, text: str) -> bool:
        """Whether it is the element type of a type, which is written as in ONNX's operator sets."""
        return element_of(text) == self.number

    def replaces(self, text: str) -> bool:
        """Whether the elements of a type get this one."""
        return element_of(text) in self.sources


FLOAT_TYPES: Final = {
    row.name: row
    for row in (
        ElementType(FLOAT16, (FLOAT,), "65504", "6e-08", 2047),
        ElementType(BFLOAT16, (FLOAT,), "3.39e+38", "9e-41", in_sequences=False),
        ElementType(FLOAT, (FLOAT16, BFLOAT16)),
    )
}
ELEMENT_TYPES: Final = {**FLOAT_TYPES, "int32": ElementType(INT32, (INT64,), in_sequences=False)}

# A tensor of the old type, a sequence or optional of such, or neither.
TypeKind: TypeAlias = typing.Literal["tensor", "container", "other"]
_NUMBERS: Final = {tensor_text(number): number for number in (FLOAT, FLOAT16, BFLOAT16, INT32, INT64)}


class TypedValue:
    """A value: its name in the model, and the types that it has and that others want.

    `old` is the type that it had, and `native` that in which it is made; none yet for a constant, which gets the one
    that its users want. `public` is the one that has the old name. For example, an x that becomes float16, but that a
    TopK needs in float32, gets `wanted` {FLOAT: "graph.node[3] (TopK)"} and `names` {FLOAT16: "x", FLOAT: "x_float32"}.
    """

    def __init__(self, name: str, type_text: str, to: ElementType) -> None:
        self.name, self.type = name, type_text
        self.kind, self.old, self.new = type_kind(type_text, to), element_of(type_text) or 0, to.number
        self.native: int | None = None
        self.public: int | None = None
        self.tensor: Tensor | None = None  # of a constant
        self.is_linked = False  # it goes in or out of a graph in a node, and is exact on both sides
        self.is_exact = False  # a node that stays needs all its digits
        self.is_copied = False  # the other type is another constant, not cast from this one
        self.is_scaled = False  # by a number that is beyond the new type, so it may be beyond it, too
        self.wanted: dict[int, str] = {}  # and the first place that wants each type
        self.names: dict[int, str] = {}

    def settle(self, taken: set[str]) -> None:
        """Choose a type for a constant, and names that are not taken for both types where both are needed."""
        if self.native is None:
            self.native = self.public or (self.new if self.new in self.wanted and not self.is_exact else self.old)
        public = self.public or self.native
        self.names[public] = self.name
        for other in {self.native, *self.wanted} - {public}:
            self.names[other] = free(f"{self.name}_{BY_NUMBER[other].numpy_name}", taken)

    @property
    def cast_to(self) -> int | None:
        """The type to which it must be cast, besides the one that it has."""
        return next((name for name in self.names if name != self.native), None)

    def named(self, number: int) -> str:
        """The name under which the value has a type; a value that is no float has only one."""
        return self.names[number] if self.kind != "other" else self.name


def type_kind(text: str, to: ElementType) -> TypeKind:
    """What a value of this type is for a conversion; the type is written as in ONNX's operator sets."""
    kind: TypeKind = "tensor" if text.startswith("tensor(") else "container"
    return kind if to.replaces(text) and (kind == "tensor" or to.in_sequences) else "other"


def element_of(text: str) -> int | None:
    """The number of the type that the elements of a tensor have, or those in a sequence or an optional."""
    while text.startswith(("seq(", "optional(")):
        text = text[text.index("(") + 1 : -1]
    return _NUMBERS.get(text)


def with_element(type_: Type | None, number: int) -> Type | None:
    """The type with another type of elements in place of its floats."""
    if type_ is None or element_of(operator_type_text(type_)) is None:
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
    ("large", "too large for {0.name}", "{0.largest} with its sign", RESULTS),
    ("unlimited", "so large that they mean no limit", "{0.largest} with its sign", RANGE),
    ("small", "too near zero for {0.name}", "the least one with its sign, {0.least}", RARE),
)


class Weights:
    """The tensors that got a type, and their numbers that it cannot hold."""

    def __init__(self, to: ElementType) -> None:
        self.to = to
        self.count = self.nbytes = 0
        self._found: dict[int, tuple[Tensor, Beyond]] = {}
        self._moved: dict[str, Beyond] = {}

    def beyond(self, tensor: Tensor) -> Beyond:
        """The numbers that the type cannot hold, which are counted once."""
        from formats.tensordata.sources.transform import Beyond, beyond

        if not self.to.is_narrower or tensor.data_type not in self.to.sources:
            return Beyond()
        if id(tensor) not in self._found:  # the tensor is held, so its identity stays
            self._found[id(tensor)] = tensor, beyond(tensor.source(), self.to.name)
        return self._found[id(tensor)][1]

    def of(self, tensor: Tensor, place: str) -> Tensor:
        """A tensor with its numbers in the type."""
        from formats.tensordata.sources.transform import casting, clamp, narrowing

        source, old = tensor.source(), BY_NUMBER[tensor.data_type or 0].numpy_name
        if any((found := self.beyond(tensor))[:3]):
            self._moved[place] = found
        self.count, self.nbytes = self.count + 1, self.nbytes + source.nbytes
        if self.to.is_narrower:
            converted = narrowing(self.to.name).of(source)
        else:  # no other integer is beyond the type than the end of a Slice
            converted = (clamp if self.to.number == INT32 else casting)(old, self.to.name).of(source)
        new = with_elements(tensor, Literal(converted.read()) if source.nbytes <= SMALL_BYTES else converted)
        new.data_type = self.to.number
        return new

    def sentence(self) -> str:
        """What was done."""
        nbytes = self.nbytes * 2 if self.to.number == FLOAT else self.nbytes // 2
        sizes = f"{in_units(self.nbytes)} -> {in_units(nbytes)}"
        return f"{counted(self.count, 'weight')} became {self.to.name}, {sizes}"

    def losses(self) -> Iterator[Loss]:
        """The numbers that became others, apart from rounding."""
        for field, what, became, seen in LOST:
            counts = {place: number for place, beyond in self._moved.items() if (number := getattr(beyond, field))}
            if counts:
                tensors = f"of {counted(len(counts), 'weight')}"
                detail = f"{counted(sum(counts.values()), 'number')} {tensors} {what}; each became {became}"
                yield Loss("dtype", next(iter(counts)), detail.format(self.to), seen)


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
_ONLY_BITS: Final = {"": "BitCast"}  # operators that stay also if numbers become float32
_OF_ATTRIBUTE: Final = (("LayerNormalization", "U"),)  # what has the type of stash_type, which stays float32
# Operators that stay in float32 if float16 cannot hold a weight of theirs: their results are often smaller.
SCALING: Final = ("BatchNormalization", "Conv", "ConvTranspose", "Div", "Gemm", "MatMul", "Mul", "Pow")
INTEGER_SUMS: Final = ("ConvInteger", "MatMulInteger")  # their INT32 are often beyond the range of float16
REDUCING: Final = ("ScatterElements", "ScatterND")  # with a reduction, onnxruntime has no float16
# Attributes with the type of the output, and their value if they are missing; 0: then an input says it.
TYPE_ATTRIBUTES: Final = {
    "Cast": ("to", 0),
    "DequantizeLinear": ("output_dtype", 0),
    "SequenceEmpty": ("dtype", FLOAT),
    **dict.fromkeys(
        ["Bernoulli", "EyeLike", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"], ("dtype", 0)
    ),
    **dict.fromkeys(["BlackmanWindow", "HammingWindow", "HannWindow", "MelWeightMatrix"], ("output_datatype", 0)),
}
# Attributes with the type in which a node computes, which stays if it becomes narrower.
PRECISIONS: Final = {
    "Attention": "softmax_precision",
    "LayerNormalization": "stash_type",
    "GroupNormalization": "stash_type",
    "QuantizeLinear": "precision",
    "RMSNormalization": "stash_type",
}


class Why(Enum):
    """Why nodes stay in their type, in the words of a report about an `ElementType`."""

    NAMED = "named by `keep`"
    EXACT = "sizes, indices, comparisons and angles"
    QUANTIZED_SUMS = "sums of quantised products"
    LARGE_SUMS = "sums of more than {0.most_added:,} numbers, or of nobody knows how many"
    SUMS_NEAR_ZERO = "sums with a number near zero"
    BEYOND = "weights beyond the range of the type"
    SCALES = "scales of quantised numbers"
    NEAR_ZERO = "weights near zero"
    UNDEFINED = "not defined, or not run well, in {0.name}"
    WITHOUT_KERNEL = "without a kernel for {0.name} in the runtime"
    # of integers
    UNPROVEN = "numbers that may need more than 32 bits"
    SIZES = "arithmetic of sizes"
    FOR_INT64 = "for inputs that are defined in int64 only"
    INT64_ONLY = "defined in int64 only"
    OTHERS = "not among ONNX's own operators"
    UNKNOWN = "beside values of unknown types"


class ParameterTypes(NamedTuple):
    """The inputs or outputs of an operator: for each, whether it gets the new type, and whether it may have an old one.

    The last one stands for all that follow.
    """

    new: tuple[bool, ...]
    old: tuple[bool, ...]

    def is_new(self, index: int) -> bool:
        """Whether a value there gets the new type."""
        return bool(self.new) and self.new[min(index, len(self.new) - 1)]

    def may_be_old(self, index: int) -> bool:
        """Whether a value that would get another type is possible there."""
        return not self.old or self.old[min(index, len(self.old) - 1)]

    def without(self, stays: Sequence[bool]) -> ParameterTypes:
        """The same for a node with as many of them, of which some stay."""
        return self._replace(new=tuple(self.is_new(index) and not stay for index, stay in enumerate(stays)))


class OperatorTypes(NamedTuple):
    """The types of an operator in one version of its set.

    `is_known` if there is a schema; `stays` says why, if all of it stays.
    """

    inputs: ParameterTypes = ParameterTypes((), ())
    outputs: ParameterTypes = ParameterTypes((), ())
    is_known: bool = False
    stays: Why | None = None


def staying(form: OperatorTypes, why: Why | None) -> OperatorTypes:
    """The types of an operator that stays in its type, although it need not."""
    inputs, outputs = (ends._replace(new=(False,) * len(ends.new)) for ends in (form.inputs, form.outputs))
    return OperatorTypes(inputs, outputs, form.is_known, why)


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
    """The operators of a model, in the versions that it imports.

    `lacks` says whether a runtime has no kernel for a type of an operator in a version of ONNX's set.
    """

    def __init__(
        self, imports: list[OperatorSetId], to: ElementType, lacks: Callable[[TypeUse, int], bool] | None = None
    ) -> None:
        self._versions = {domain_key(entry.domain): entry.version or 0 for entry in imports}
        self._to, self._lacks = to, lacks
        self._forms: dict[tuple[str, str], OperatorTypes] = {}

    def form_of(self, node: Node) -> OperatorTypes:
        """The form of a node's operator; one without a schema stays as it is."""
        key = domain_key(node.domain), node.op_type or ""
        if key not in self._forms:
            self._forms[key] = self._form(*key)
        return self._forms[key]

    @property
    def version(self) -> int:
        """The version of ONNX's own operators."""
        return self._versions.get("", 0)

    def _form(self, domain: str, name: str) -> OperatorTypes:
        version, to = self._versions.get(domain, 0), self._to
        signature = signature_of(domain, name, version)
        if signature is None:
            if to.is_narrower or not is_of_onnxruntime(domain, name):
                return OperatorTypes(stays=Why.UNDEFINED)
            every = ParameterTypes((True,), (True,))  # they all compute in float32, too
            return OperatorTypes(every, every)
        inputs, outputs = (self._ends(name, signature, ends) for ends in (signature.inputs, signature.outputs))
        form = OperatorTypes(inputs, outputs, is_known=True)
        why = self._why_stays(domain, name, signature, form)
        return staying(form, why if any((*inputs.old, *outputs.old)) else None) if why else form

    def _ends(self, name: str, signature: TypeSignature, ends: Sequence[Parameter]) -> ParameterTypes:
        """Which inputs or outputs of an operator get the new type, and which may have an old one."""
        to, allowed = self._to, [signature.allowed(each) for each in ends]
        stays = [to.is_narrower and (name, each.name) in _OF_ATTRIBUTE for each in ends]
        new = (any(map(to.has, types)) and not stay for types, stay in zip(allowed, stays, strict=True))
        return ParameterTypes((*new,), tuple(any(map(to.replaces, types)) for types in allowed))

    def _why_stays(self, domain: str, name: str, signature: TypeSignature, form: OperatorTypes) -> Why | None:
        """Why an operator stays in its type; `None` if it need not."""
        to, parameters = self._to, (*signature.inputs, *signature.outputs)
        new, old = (*form.inputs.new, *form.outputs.new), (*form.inputs.old, *form.outputs.old)
        table = _STAY if to.is_narrower else _ONLY_BITS
        if name in table.get(domain, "").split() or not any(new):
            return Why.UNDEFINED
        if not to.in_sequences and (name == "OptionalGetElement" or not all(map(signature.may_be_tensor, parameters))):
            return Why.UNDEFINED
        changing = [each for each, *types in zip(parameters, new, old, strict=True) if all(types)]
        uses = (TypeUse(name, signature.since, each.name, to.text) for each in changing)
        if self._lacks and any(self._lacks(use, self._versions.get(domain, 0)) for use in uses):
            return Why.WITHOUT_KERNEL
        return None


def inner_graphs(node: Node, place: str) -> Iterator[tuple[Graph, str]]:
    """The graphs in the attributes of the node at a place, each with its own place."""
    for name, inner in subgraphs_of(node):
        attribute = attribute_named(node, name)
        yield inner, walk.inner_place(walk.inner_place(place, "attribute", None, attribute), "g")


def is_constant_node(node: Node) -> bool:
    """Whether a node is a constant, which can have either type."""
    return node.op_type == "Constant" and node.domain in STANDARD_DOMAINS


def with_type(node: Node, made: TypedValue | None, weights: Weights) -> None:
    """Change the attributes of a node whose first output gets the new type."""
    to = weights.to
    if made is None or made.kind == "other" or made.native != to.number or node.domain not in STANDARD_DOMAINS:
        return
    if node.op_type in ("Constant", "ConstantOfShape"):
        node.attribute = [_constant(attribute, made.name, weights) for attribute in node.attribute]
        if not node.attribute and node.op_type == "ConstantOfShape":
            node.attribute = [make_attribute("value", _zero(to))]
        return
    name, missing = TYPE_ATTRIBUTES.get(node.op_type or "", ("", 0))
    names = {attribute.name for attribute in entries(node, "attribute")}
    if name in names:
        node.attribute = [_typed(attribute, name, to) for attribute in node.attribute]
    elif missing in to.sources:
        node.attribute = [*node.attribute, make_attribute(name, to.number)]
    if not to.is_narrower and (precision := PRECISIONS.get(node.op_type or "")) in names:
        node.attribute = [_typed(attribute, precision or "", to) for attribute in node.attribute]
    if any(attribute.tp is not None for attribute in entries(node, "attribute")):
        node.attribute = [_with_type(attribute, to) for attribute in node.attribute]


def _typed(attribute: Attribute, name: str, to: ElementType) -> Attribute:
    """The attribute with the new type in place of an old one, if it is the one that names the type."""
    texts = [BY_NUMBER[number].name.encode() for number in to.sources]
    if attribute.name != name or not (attribute.i in to.sources or attribute.s in texts):  # a text before version 6
        return attribute
    new = copied(attribute)
    if attribute.s is None:
        new.i = to.number
    else:
        new.s = BY_NUMBER[to.number].name.encode()
    return new


def _with_type(attribute: Attribute, to: ElementType) -> Attribute:
    if attribute.tp is None:
        return attribute
    new = copied(attribute)
    if type_kind(operator_type_text(attribute.tp), to) != "other":
        new.tp = with_element(attribute.tp, to.number)
    return new


def _constant(attribute: Attribute, place: str, weights: Weights) -> Attribute:
    """The value of a constant in the new type."""
    sources = weights.to.sources
    numbers = constant_of(attribute) if attribute.t is None else None
    if numbers is not None and numbers.data_type in sources:
        return make_attribute("value", weights.of(numbers, place))
    new = copied(attribute)
    if new.t is not None and new.t.data_type in sources:
        new.t = weights.of(new.t, place)
    if (sparse := new.sparse_tensor) is not None and sparse.values is not None and sparse.values.data_type in sources:
        sparse.values = weights.of(sparse.values, place)
    return new


def _zero(to: ElementType) -> Tensor:
    return Tensor([1], to.number, raw_data=Literal(bytes(BY_NUMBER[to.number].bits // 8)))

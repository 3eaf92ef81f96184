"""Nodes in another version of ONNX's operator set, converted by the package onnx, each on its own.

A node whose operator is the same in both versions is never given to onnx. The others go into one model without links
between them, with the types of their values and the constants that decide their form, but without weights. So names,
metadata, weights, subgraphs and everything that onnx's converter does not keep stay as they are.

What the older set does not have is written as ONNX itself defines it, where ONNX defines an operator by others.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from formats.editing.older_forms import (
    EVEN,
    SET,
    WRITTEN,
    ends_to_convert,
    first_with_inputs,
    from_the_start,
    has_references,
    uneven_split,
    with_addend,
    with_attributes,
    with_one_scale,
    with_region,
    with_tensor,
    written,
    wrong_in_onnx,
)
from formats.editing.scopes import main_graph
from formats.errors import MissingPackageError, UnsupportedError
from formats.extras import needed
from formats.ir import ONNX, STANDARD_DOMAINS
from formats.ir.copies import copied
from formats.ir.dtypes import type_name
from formats.ir.model import (
    Attribute,
    AttributeType,
    Function,
    Graph,
    Model,
    Node,
    OperatorSetId,
    Tensor,
    Type,
    ValueInfo,
    entries,
)
from formats.onnxpb.operator_sets import form_of, signature_of, signatures_of, versions_of
from formats.onnxpb.value_types import operator_type_text, without_weights
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.encoder import encoded
from formats.ort.operators import operator as operator_of
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import TypeAlias

    from formats.editing.options import EditResult
    from formats.onnxpb.operator_sets import OperatorForm, TypeSignature

    Within: TypeAlias = Callable[[Model, int], tuple[Model, EditResult]]

OLDEST_ONNX = (1, 22)  # before, axes that became an attribute were lost without an error
IR_VERSION = 10  # of the models that onnx converts, and nobody keeps
IMPLIED: Final = {
    "AveragePool": "dilations",
    "MaxPool": "dilations",
    "Reshape": "allowzero",
    "Split": "num_outputs",
}
EMPTY: Final = "empty tensors may get another shape, because Reshape writes no dims of zero before version 14"
MESSAGE = 300  # characters of an error of onnx
_PLACE_IN_CODE = re.compile(r"\S+\.(?:h|cc):\d+: \w+: Assertion `.*?` failed:\s*|\[\w*Error\]\s*")


_IN_OUR_WORDS: Final[tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...]] = (
    (re.compile(r"No Adapter (?:From|To) Version \$?(\d+) for \w+"), r"onnx cannot convert it across version \1"),
    (re.compile(r"No Previous Version of \w+ exists"), "no older operator set has it"),
    (
        re.compile(r"DataType \((\d+)\) of Input or Output of operator '\w+' is unallowed for Opset Version (\d+)"),
        lambda match: f"version {match[2]} of the operator has no {type_name(int(match[1]))}",
    ),
    (
        re.compile(r"Blocked quantization is not supported for Opset Version (\d+)"),
        r"version \1 of the operator has no scale for each block",
    ),
)


class RefusedError(UnsupportedError):
    """Nodes cannot be converted, for these reasons."""

    def __init__(self, message: str, reasons: Sequence[str]) -> None:
        super().__init__(message)
        self.reasons = reasons


class Lone(NamedTuple):
    """A node without its neighbours; its values are called `i0`, `i1` and so on, and `o0`, `o1`.

    `types` are those that are known, by these names; `constants` the inputs whose content is known.
    """

    node: Node
    types: Mapping[str, Type]
    constants: tuple[Tensor, ...]

    def prefixed(self, prefix: str) -> tuple[Node, list[ValueInfo], list[ValueInfo], list[Tensor]]:
        """The node, its inputs without the constants, its outputs and the constants, all names with a prefix."""
        constant_names = {tensor.name for tensor in self.constants}
        ends = [[f"{prefix}{name}" if name else "" for name in names] for names in (self.node.input, self.node.output)]
        node = replace(self.node, input=ends[0], output=ends[1])
        inputs, outputs = (
            [
                ValueInfo(f"{prefix}{name}", self.types.get(name))
                for name in names
                if name and name not in constant_names
            ]
            for names in (self.node.input, self.node.output)
        )
        return node, inputs, outputs, [replace(tensor, name=f"{prefix}{tensor.name}") for tensor in self.constants]

    @property
    def key(self) -> bytes:
        """What tells it from others."""
        node, inputs, outputs, constants = self.prefixed("")
        return as_bytes(Graph(node=[node], input=inputs, output=outputs, initializer=constants))


class Converted(NamedTuple):
    """The nodes that a lone node becomes, with its names, and new constants for them; or the reason why not."""

    nodes: tuple[Node, ...] = ()
    constants: tuple[Tensor, ...] = ()
    refusal: str = ""
    is_defined: bool = False  # by ONNX, with other operators
    difference: str = ""  # what differs for special values


def as_bytes(message: Any) -> bytes:
    """The bytes of a message without its weights."""
    return encoded(message, without_weights)


def lone(node: Node, types: Callable[[str], Type | None], constants: Callable[[str], Tensor | None]) -> Lone:
    """A node without its neighbours, its subgraphs and what only people read."""
    inputs = [f"i{index}" if name else "" for index, name in enumerate(node.input)]
    outputs = [f"o{index}" if name else "" for index, name in enumerate(node.output)]
    attributes = [
        attribute
        for attribute in entries(node, "attribute")
        if attribute.g is None and not entries(attribute, "graphs")
    ]
    renamed = list(zip((*inputs, *outputs), (*node.input, *node.output), strict=True))
    known_types = {new: kind for new, name in renamed if name and (kind := types(name)) is not None}
    tensors = [
        replace(tensor, name=new, doc_string=None, metadata_props=[])
        for new, name in zip(inputs, node.input, strict=True)
        if name and (tensor := constants(name)) is not None
    ]
    return Lone(Node(inputs, outputs, None, node.op_type, attribute=attributes), known_types, tuple(tensors))


def since(operator: str, version: int, domain: str = "") -> int | None:
    """The first version of the set with the form that an operator has in `version`; none if it has no such operator."""
    signature = signature_of(domain, operator, version)
    return None if signature is None else signature.since


def _onnx(operators: Iterable[str], versions: Iterable[int] = ()) -> Any:
    """The package onnx, which converts what has another form in these versions of the set.

    Raises: MissingPackageError if it is not installed, or a release that loses axes; UnsupportedError if it does not
    know a version.
    """
    names = ", ".join(sorted({*operators}))
    with needed("onnx", f"conversions of {names} to other operator sets"):
        import onnx.defs
        import onnx.version_converter
    if tuple(map(int, onnx.__version__.split(".")[:2])) < OLDEST_ONNX:
        need = ".".join(map(str, OLDEST_ONNX))
        reason = (
            f"conversions of {names} to other operator sets need onnx {need}, because older ones lose axes; there is"
        )
        raise MissingPackageError(f"{reason} {onnx.__version__}: pip install 'onnx>={need}'", "onnx")
    newest = onnx.defs.onnx_opset_version()
    if unknown := sorted(version for version in versions if version > newest):
        raise UnsupportedError(
            f"the package onnx {onnx.__version__} knows the operator sets 1 to {newest}, not {unknown[0]}"
        )
    return onnx


def convert_nodes(nodes: Sequence[Lone], from_version: int, wanted: int, within: Within) -> list[Converted]:
    """Each of these nodes in the operator set `wanted`; `within` converts a whole model."""
    results: list[Converted] = [Converted()] * len(nodes)
    groups: dict[tuple[int, int], list[int]] = {}
    for index, single in enumerate(nodes):
        operator = single.node.op_type or ""
        if (first := first_with_inputs(operator, from_version, wanted)) is not None:
            results[index] = _with_attributes(single, from_version, first, wanted, within)
            continue
        groups.setdefault(ends_to_convert(operator, [*signatures_of(ONNX, operator)], from_version, wanted), []).append(
            index
        )
    for (first, last), indices in groups.items():
        chosen = [nodes[index] for index in indices]
        for index, form in zip(indices, _between(chosen, first, last), strict=True):
            for node in form.nodes:
                _drop_defaults(node, last, from_version)
                refusal, difference = _without_implied(nodes[index], node, last)
                form = form._replace(refusal=form.refusal or refusal, difference=form.difference or difference)
                if wanted < from_version:
                    form = _in_older_form(nodes[index], node, form, last)
            if last != wanted and not form.refusal:
                form = _further(nodes[index], form, last, wanted, within)
            results[index] = form
    return [_valid(single, form, from_version, wanted, within) for single, form in zip(nodes, results, strict=True)]


def _with_attributes(single: Lone, version: int, first: int, wanted: int, within: Within) -> Converted:
    """A node whose constant inputs become attributes before the version `first`, in an older one."""
    (converted,) = convert_nodes([single], version, first, within)
    if converted.refusal:
        return converted
    constants = {tensor.name or "": tensor for tensor in (*single.constants, *converted.constants)}
    nodes = [copied(node) for node in converted.nodes]
    refusal = next(
        (
            reason
            for node in nodes
            if node.op_type == single.node.op_type and (reason := with_attributes(node, constants))
        ),
        "",
    )
    if refusal:
        return Converted(refusal=refusal)
    converted = converted._replace(nodes=tuple(nodes))
    return converted if first - 1 == wanted else _further(single, converted, first - 1, wanted, within)


def _in_older_form(original: Lone, node: Node, form: Converted, version: int) -> Converted:
    """Write one of the nodes of a form on its way down as older versions need it: see `attribute_forms`."""
    constants = {tensor.name or "": tensor for tensor in original.constants}
    data = original.types.get("i0") if node.op_type == original.node.op_type else None
    refusal = with_one_scale(node, original.types.get("i1") if data is not None else None, version)
    below, difference = from_the_start(node, data, constants, version)
    refusal = refusal or below
    with_tensor(node, version)
    added = (with_addend(node, original.types.get("i0"), version), with_region(node, version))
    more = tuple(tensor for tensor in added if tensor is not None)
    return form._replace(
        refusal=form.refusal or refusal, difference=form.difference or difference, constants=(*form.constants, *more)
    )


def _between(nodes: Sequence[Lone], first: int, last: int) -> list[Converted]:
    """These nodes between two versions that have different forms of them, or unchanged if both are the same."""
    if first == last:
        return [Converted((copied(single.node),)) for single in nodes]
    wrong = [wrong_in_onnx(single.node, single.types.get("i0"), first, last) for single in nodes]
    right = [single for single, reason in zip(nodes, wrong, strict=True) if not reason]
    converted = iter(_batch(right, first, last) if right else ())
    return [Converted(refusal=reason) if reason else next(converted) for reason in wrong]


def _valid(single: Lone, converted: Converted, version: int, wanted: int, within: Within) -> Converted:
    """What a node became, or its definition by other operators where that is refused."""
    if converted.refusal or (converted := _checked(single, converted, version, wanted)).refusal:
        if has_references(single.node):
            return converted
        defined = _checked(single, _defined(single, version, wanted, within), version, wanted)
        return converted if defined.refusal and single.node.op_type not in WRITTEN else defined
    return converted


def _without_implied(single: Lone, node: Node, version: int) -> tuple[str, str]:
    """Drop an attribute that an older form lacks, where the result is the same; or what prevents it, and what differs.

    Split divides evenly without a number of parts; Reshape cannot write a dim of zero, which only empty tensors have.
    """
    name = IMPLIED.get(node.op_type or "")
    implied = next((attribute for attribute in node.attribute if attribute.name == name), None)
    form = form_of(ONNX, node.op_type or "", version)
    if implied is None or implied.ref_attr_name or form is None or name in form.attributes:
        return "", ""
    if name == "dilations" and any(dilation != 1 for dilation in implied.ints):
        return "", ""  # the caller reports it as an unknown attribute
    if name == "num_outputs" and uneven_split(node, single.types.get("i0")):
        return EVEN, ""
    node.attribute = [attribute for attribute in node.attribute if attribute is not implied]
    if name != "allowzero" or not implied.i:
        return "", ""
    shape = next((tensor for tensor in single.constants if tensor.name == "i1"), None)
    return "", "" if shape is not None and shape.numpy().all() else EMPTY


def _further(single: Lone, converted: Converted, version: int, wanted: int, within: Within) -> Converted:
    """What a node became in one version, in another one."""
    _, inputs, outputs, constants = single.prefixed("")
    own = {tensor.name for tensor in constants}
    used = {name for node in converted.nodes for name in node.input}
    kept = [tensor for tensor in constants if tensor.name in used]
    graph = Graph(name="further", node=[*converted.nodes], input=inputs, output=outputs)
    graph.initializer = [*kept, *converted.constants]
    try:
        model, result = within(Model(IR_VERSION, opset_import=[OperatorSetId("", version)], graph=graph), wanted)
    except RefusedError as error:
        return Converted(refusal=error.reasons[0])
    new = [tensor for tensor in main_graph(model).initializer if tensor.name not in own]
    difference = converted.difference or next((loss.detail for loss in result.losses), "")
    return Converted(tuple(main_graph(model).node), tuple(new), difference=difference)


def _batch(nodes: Sequence[Lone], from_version: int, wanted: int) -> list[Converted]:
    """The nodes as onnx converts them: all at once, or in halves if it refuses one of them."""
    onnx = _onnx((single.node.op_type or "" for single in nodes), (from_version, wanted))
    graph = Graph(name="nodes")
    for index, single in enumerate(nodes):
        node, inputs, outputs, constants = single.prefixed(f"{index}.")
        graph.node.append(node)
        graph.input += inputs
        graph.output += outputs
        graph.initializer += constants
    model = Model(IR_VERSION, opset_import=[OperatorSetId("", from_version)], graph=graph)
    try:
        result = onnx.version_converter.convert_version(onnx.ModelProto.FromString(as_bytes(model)), wanted)
    except Exception as error:
        if len(nodes) == 1:
            return [Converted(refusal=_said(error))]
        half = len(nodes) // 2
        return [*_batch(nodes[:half], from_version, wanted), *_batch(nodes[half:], from_version, wanted)]
    converted_model = decode(Literal(result.SerializeToString()), Model)
    return [_taken(main_graph(converted_model), f"{index}.", single) for index, single in enumerate(nodes)]


def _said(error: Exception) -> str:
    """What onnx says, in one line, without the place in its own code."""
    text = " ".join(_PLACE_IN_CODE.sub("", str(error)).split()).strip(". ")
    for pattern, words in _IN_OUR_WORDS:
        text = pattern.sub(words, text)
    return text[:MESSAGE] or type(error).__name__


def _taken(graph: Graph, prefix: str, single: Lone) -> Converted:
    """What a node became: the nodes in the graph that its outputs need."""
    makers = {name: index for index, node in enumerate(graph.node) for name in node.output if name}
    tensors = {tensor.name: tensor for tensor in graph.initializer}
    needed, stack = set(), [f"{prefix}{name}" for name in single.node.output if name]
    if any(name not in makers for name in stack):
        return Converted(refusal="onnx's converter loses an output")
    constants = {}
    while stack:
        name = stack.pop()
        if name in makers and makers[name] not in needed:
            needed.add(makers[name])
            stack += filter(None, graph.node[makers[name]].input)
        elif name in tensors and not name.startswith(prefix):
            constants[name] = tensors[name]
    nodes = [graph.node[index] for index in sorted(needed)]
    for node in nodes:
        node.input = [name.removeprefix(prefix) for name in node.input]
        node.output = [name.removeprefix(prefix) for name in node.output]
    return Converted(tuple(nodes), tuple(constants.values()))


# What ONNX defines by other operators


def _defined(single: Lone, version: int, wanted: int, within: Within) -> Converted:
    """A node as ONNX defines its operator by others, in an operator set that does not have it."""
    operator = single.node.op_type or ""
    if since(operator, version) is None:
        return Converted(refusal=f"version {version} of ai.onnx has no operator {operator:.80}")
    own = written(single.node, single.types, single.constants, wanted)
    if own is not None:
        if own.refusal:
            return Converted(refusal=own.refusal)
        return _defined_by(single, Converted(own.nodes, own.constants), SET, wanted, within)
    body = _body(_onnx([operator], [version]).defs.get_schema(operator, version, ""), single, wanted)
    if body is None:
        return Converted(refusal="ONNX does not define it by other operators")
    function, its_version = body
    if any(entry.domain not in STANDARD_DOMAINS for entry in function.opset_import):
        return Converted(refusal="ONNX defines it by operators of other domains")
    return _defined_by(single, Converted(tuple(_inlined(function, single, version))), its_version, wanted, within)


def _defined_by(single: Lone, form: Converted, version: int, wanted: int, within: Within) -> Converted:
    """A form of a node by other operators, in the set `wanted`."""
    converted = _further(single, form, version, wanted, within)
    if converted.refusal:
        return Converted(refusal=f"its definition by other operators is refused: {converted.refusal}")
    return converted._replace(is_defined=True)


def _body(schema: Any, single: Lone, wanted: int) -> tuple[Function, int] | None:
    """ONNX's definition of an operator as a function, and the operator set of its nodes: the nearest to `wanted`."""

    def nearest(versions: Iterable[int]) -> int | None:
        versions = sorted(versions)
        older = [version for version in versions if version <= wanted]
        return older[-1] if older else next(iter(versions), None)

    if (version := nearest(schema.function_opset_versions)) is not None:
        data = schema.get_function_with_opset_version(version)
    elif (version := nearest(schema.context_dependent_function_opset_versions)) is not None:
        types = [as_bytes(single.types.get(name) or Type()) if name else b"" for name in single.node.input]
        try:
            data = schema.get_context_dependent_function_with_opset_version(version, as_bytes(single.node), types)
        except Exception:
            return None
    else:
        return None
    return (decode(Literal(data), Function), version) if data else None


def _inlined(function: Function, single: Lone, version: int) -> list[Node]:
    """The nodes of a function with the names and the attributes of a node that calls it."""
    names = dict(zip(function.input, (*single.node.input, *[""] * len(function.input)), strict=False))
    names |= dict(zip(function.output, single.node.output, strict=False))
    values = {attribute.name: attribute for attribute in single.node.attribute}
    values = _defaults(single.node.op_type or "", version) | values
    inner = Graph(node=function.node)
    _rename(inner, {name: name if new is None else new for name, new in names.items()}, values)
    return inner.node


def _rename(graph: Graph, names: Mapping[str, str], values: Mapping[str | None, Attribute]) -> None:
    """Give a graph and its subgraphs other names of values, and attributes for the references to attributes."""
    for node in graph.node:
        node.input = [names.get(name, name) for name in node.input]
        node.output = [names.get(name, name) for name in node.output]
        kept = []
        for attribute in entries(node, "attribute"):
            if attribute.ref_attr_name:
                if (value := values.get(attribute.ref_attr_name)) is None:
                    continue
                attribute = replace(value, name=attribute.name)
            for inner in (attribute.g, *entries(attribute, "graphs")):
                if inner is not None:
                    _rename(inner, names, values)
                    for info in inner.output:
                        info.name = names.get(info.name or "", info.name)
            kept.append(attribute)
        node.attribute = kept


# Whether the result is valid


def _checked(single: Lone, converted: Converted, version: int, wanted: int) -> Converted:
    """The result, or the reason why the operator set does not allow it: an attribute, or the type of a value."""
    if converted.refusal:
        return converted
    for node in converted.nodes:
        operator = node.op_type or ""
        signature, form = signature_of("", operator, wanted), form_of(ONNX, operator, wanted)
        if signature is None or form is None:
            return Converted(refusal=f"version {wanted} of ai.onnx has no operator {operator}")
        _drop_defaults(node, wanted, version)
        has_graphs = any(
            number in (AttributeType.GRAPH, AttributeType.GRAPHS) for number, _ in form.attributes.values()
        )
        reason = "" if has_graphs and not converted.is_defined else _form_problem(node, form, wanted)
        if reason := reason or _type_problem(node, signature, single.types):
            return Converted(refusal=reason)
    return converted


def _form_problem(node: Node, form: OperatorForm, version: int) -> str:
    """What a form of the operator does not have, or needs."""
    assert form.inputs is not None, "a deprecated operator has no types"
    forms = versions_of(ONNX, node.op_type or "")
    for word, names, wanted in (("input", node.input, form.inputs), ("output", node.output, form.outputs)):
        if not wanted.least <= len(names) <= wanted.most:
            counts = {since: getattr(other, f"{word}s") for since, other in forms.items()}
            later = [since for since, count in counts.items() if count and count.least <= len(names) <= count.most]
            if first := min((since for since in later if since > version), default=0):
                return f"{node.op_type} with {len(names)} {word}s has no form before operator set {first}"
            return f"version {version} of the operator has {wanted} {word}s, not {len(names)}"
        omitted = (index for index, name in enumerate(names) if not name and wanted.letters[index : index + 1] == "S")
        if (index := next(omitted, None)) is not None:
            return f"it needs {word} {index}"
    attributes = {attribute.name or "": attribute for attribute in node.attribute}
    for name, attribute in attributes.items():
        if name not in form.attributes:
            later = [since for since, other in forms.items() if since > version and name in other.attributes]
            if later:
                return f"{node.op_type} with the attribute {name:.80} has no form before operator set {min(later)}"
            return f"version {version} of the operator has no attribute {name!r:.80}"
        if attribute.type not in (None, form.attributes[name][0]):
            return f"its attribute {name!r:.80} has another type in version {version} of the operator"
    missing = (name for name, (_, is_required) in form.attributes.items() if is_required and name not in attributes)
    return "".join(f"it needs the attribute {name!r}" for name in [*missing][:1])


def _defaults(operator: str, version: int) -> dict[str | None, Attribute]:
    """The attributes of an operator that mean the same as none."""
    row = operator_of("", operator, version)
    return {} if row is None else {attribute.name: attribute for attribute in row.defaults}


def _drop_defaults(node: Node, wanted: int, from_version: int) -> None:
    """Drop attributes that the form of one version lacks, and that mean the same as none in the other version."""
    operator = node.op_type or ""
    mine, other = (form_of(ONNX, operator, version) for version in (wanted, from_version))
    if mine is None or mine.inputs is None or other is None or other.inputs is None:
        return
    defaults = _defaults(operator, from_version)
    node.attribute = [
        attribute
        for attribute in node.attribute
        if attribute.name in mine.attributes or defaults.get(attribute.name) != attribute
    ]


def _type_problem(node: Node, signature: TypeSignature, types: Mapping[str, Type]) -> str:
    """Which value has a type that the operator does not accept, as far as types are known."""
    same: dict[str, str] = {}
    for names, formals in ((node.input, signature.inputs), (node.output, signature.outputs)):
        for index, name in enumerate(names):
            text = operator_type_text(types.get(name))
            formal = formals[min(index, len(formals) - 1)] if formals else None
            if not text or formal is None:
                continue
            if text not in signature.allowed(formal):
                return f"{node.op_type} accepts no {text} before a later version than {signature.since}"
            if formal.is_same and same.setdefault(formal.name, text) != text:
                return f"{node.op_type} does not accept {same[formal.name]} with {text} before a later version"
    return ""


def instance(converted: Converted, node: Node, fresh: Callable[[str], str]) -> tuple[list[Node], list[Tensor]]:
    """New nodes and constants for a node of the model, of which `converted` has the form; `fresh` makes new names."""
    ends = [(f"i{index}", name) for index, name in enumerate(node.input)]
    ends += [(f"o{index}", name) for index, name in enumerate(node.output)]
    names = {new: name for new, name in ends if name}
    near = node.name or next(filter(None, node.output), "") or node.op_type or ""
    made = [copied(new) for new in converted.nodes]
    constants = [copied(tensor) for tensor in converted.constants]
    for name in [*(name for new in made for name in new.output if name), *(tensor.name or "" for tensor in constants)]:
        if name not in names:
            names[name] = fresh(near)
    _rename(inner := Graph(node=made), names, {})
    for tensor in constants:
        tensor.name = names[tensor.name or ""]
    own = {attribute.name: attribute for attribute in entries(node, "attribute")}
    main = next((new for new in made if new.op_type == node.op_type), made[-1])
    for new in inner.node:
        new.name = node.name if new is main or not node.name else fresh(f"{node.name}_{new.op_type}")
        new.domain = node.domain
        new.metadata_props = [copied(entry) for entry in entries(node, "metadata_props")]
        new.doc_string = node.doc_string if new is main else None
        new.attribute = [
            own[a.name] if a.t is not None and a.name in own and own[a.name].t is not None else a for a in new.attribute
        ]
    if main.op_type == node.op_type and not converted.is_defined:
        names_there = {attribute.name for attribute in main.attribute}
        main.attribute += [a for a in own.values() if (a.g is not None or a.graphs) and a.name not in names_there]
    return inner.node, constants

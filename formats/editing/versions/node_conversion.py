"""Nodes in another version of their operator set, one version after the other.

A node without its neighbours goes through the rows of `version_steps.py`. So names, metadata, weights and subgraphs
stay as they are. What the older set does not have is written as ONNX itself defines it, where ONNX defines an operator
by others; the package `onnx` has these definitions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from formats.editing.nodes import constant_node, constant_of_node
from formats.editing.scopes import names_used, subgraphs_of
from formats.editing.versions.node_forms import LoneNode, NodeForm, NoFormError, lone_node
from formats.editing.versions.older_operators import OLDER
from formats.editing.versions.version_steps import Step, step_to
from formats.extras import needed
from formats.ir import ONNX
from formats.ir.attributes import label_of
from formats.ir.copies import copied
from formats.ir.model import Function, Graph, Model, OperatorSetId, Type, ValueInfo, entries
from formats.ir.node_order import Names
from formats.onnxpb.inference import inferred, without_large_data
from formats.onnxpb.operator_sets import form_of, is_function, signature_of, signatures_of, versions_of
from formats.onnxpb.value_types import operator_type_text, tensor_text, type_of, types_made
from formats.onnxpb.wire.decoder import decode
from formats.onnxpb.wire.encoder import encoded
from formats.onnxruntime import BEFORE_ONNX
from formats.onnxruntime.operators import operator as operator_of
from formats.tensordata.plan import RARE
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from formats.ir.model import Attribute, Node, Tensor
    from formats.onnxpb.operator_sets import OperatorForm, TypeSignature

COUNT: Final = "the number of elements of a Range of floats may differ by one, because it is computed in FLOAT"
IR_VERSION: Final = 10  # of the models that onnx infers shapes of, and nobody keeps
GRAPHS: Final = (5, 10)  # the types of attributes with graphs


def since(operator: str, version: int, domain: str = "") -> int | None:
    """The first version of the set with the form that an operator has in `version`; none if it has no such operator."""
    return max((first for first in signatures_of(domain or ONNX, operator) if first <= version), default=None)


def converted(lone: LoneNode, given: int, wanted: int) -> NodeForm:
    """A node in another version of its operator set.

    Raises: NoFormError with the reason if it has no form there; MissingPackageError if ONNX may define it by other
    operators, and the package onnx, which has the definitions, is not installed.
    """
    result = NodeForm(lone)
    types, constants = dict(lone.types), dict(lone.constants)
    taken = Names((*lone.node.input, *lone.node.output))
    waiting = [(lone.node, given)]  # nodes in order, and the version in which each is written
    while waiting:
        node, version = waiting.pop(0)
        step = _next_step(node, version, wanted)
        if step is None:
            result.nodes.append(node)
            if (tensor := constant_of_node(node)) is not None:
                constants[node.output[0]] = tensor
            continue
        single = _single(node, types, constants)
        try:
            form, version = _in_step(single, version, step, up=wanted > version)
        except NoFormError:
            by_others = _by_others(single, version, wanted, is_first=step == min(_versions(node)))
            if by_others is None:
                raise
            form, version = by_others
            result.is_defined = True
        form.types = _types(form, version)
        _put_in_place(form, node, taken)
        result.constants |= form.constants
        constants |= form.constants
        types |= form.types
        for text, seen in form.differences.items():
            result.tell(text, seen)
        waiting[:0] = [(made, version) for made in form.nodes]
    used = {name for node in result.nodes for name in names_used(node)}.union(lone.node.output)
    result.constants = {name: tensor for name, tensor in result.constants.items() if name in used}
    result.nodes = [node for node in result.nodes if node.op_type != "Constant" or not used.isdisjoint(node.output)]
    return result


def _single(node: Node, types: Mapping[str, Type], constants: Mapping[str, Tensor]) -> LoneNode:
    """A node in a form, without its neighbours; one with graphs keeps its names, which its graphs may use."""
    if any(attribute.g is not None for attribute in entries(node, "attribute")):
        return LoneNode(node, types, constants)
    return lone_node(node, types.get, constants.get)


def _versions(node: Node) -> Iterable[int]:
    """The versions of the operator of a node."""
    return signatures_of(node.domain or ONNX, node.op_type or "")


def _next_step(node: Node, version: int, wanted: int) -> int | None:
    """The version whose row the next step takes, or `None` if the operator has the same form in both."""
    own = since(node.op_type or "", version, node.domain or "")
    newer = min((first for first in _versions(node) if version < first <= wanted), default=None)
    if own is None and (newer is None or node.op_type not in BEFORE_ONNX):
        raise NoFormError(f"version {version} of {node.domain or ONNX} has no operator {node.op_type or '':.80}")
    if own is None or wanted > version:
        return newer
    return own if own > wanted else None


def _in_step(lone: LoneNode, version: int, step: int, *, up: bool) -> tuple[NodeForm, int]:
    """What a node becomes in one step, and the version in which that is written. Raises: NoFormError."""
    domain, operator = lone.node.domain or "", lone.operator
    row = step_to(domain, operator, step)
    if row is None and min(_versions(lone.node)) == step:
        if not up:
            raise NoFormError("no older operator set has it")
        row = Step()  # it is one of `BEFORE_ONNX`
    if row is None:
        raise NoFormError(f"it is not known here what changed in version {step} of {operator}")
    form, after = NodeForm(lone), step if up else step - 1
    try:
        (row.up if up else row.down)(lone, form)
    except (ArithmeticError, LookupError, TypeError, ValueError) as error:  # the node is not valid in its own version
        raise NoFormError("its attributes, inputs and constants do not fit together") from error
    for node in form.nodes:
        if node.op_type == operator:
            _drop_defaults(node, after, version)
        if since(node.op_type or "", after, domain) is None:
            raise NoFormError(f"version {after} of {domain or ONNX} has no operator {node.op_type}")
        _check(node, after, {**lone.types, **form.types})
    return form, after


def _types(form: NodeForm, version: int) -> dict[str, Type]:
    """The types of the new values of a form: those that it says, and what the operators make of them."""
    types = {name: operator_type_text(kind) for name, kind in {**form.lone.types, **form.types}.items()}
    types |= {name: tensor_text(tensor.data_type) for name, tensor in form.constants.items()}
    own = {*form.lone.node.input, *form.lone.node.output}
    result = {name: kind for name, kind in form.types.items() if name not in own}
    for node in form.nodes:
        made = types_made(node, [types.get(name, "") for name in node.input], {}, {node.domain or ONNX: version})
        for name, text in zip(node.output, made, strict=False):
            if name not in own and name not in result and (kind := type_of(text)) is not None:
                types[name], result[name] = text, kind
    return result


def _put_in_place(form: NodeForm, node: Node, taken: Names) -> None:
    """Give the values of a form the names of a node, and names that are not taken to new ones."""
    names = dict(zip(form.lone.node.input, node.input, strict=True))
    names |= dict(zip(form.lone.node.output, node.output, strict=True))
    for name in (*form.constants, *(name for new in form.nodes for name in new.output)):
        if name not in names:
            names[name] = taken.new(name)
    names.pop("", None)
    graph = Graph(node=form.nodes)
    rename(graph, names, None)
    form.nodes = graph.node
    form.constants = {names[name]: replace(tensor, name=names[name]) for name, tensor in form.constants.items()}
    form.types = {names.get(name, name): kind for name, kind in form.types.items()}


# What ONNX defines by other operators


def _by_others(lone: LoneNode, version: int, wanted: int, *, is_first: bool) -> tuple[NodeForm, int] | None:
    """A node by other operators, and the version in which they are written; `None` if ONNX defines it by none.

    Raises: NoFormError if more is known.
    """
    form = NodeForm(lone)
    row = lone.elem_type(lone.input(0))
    if lone.operator == "Range" and row is not None and row.kind == "f":
        form.tell(COUNT, RARE)
    if is_first and lone.operator in OLDER and not lone.node.domain:
        version, rewriting = OLDER[lone.operator]
        rewriting(lone, form, wanted)
        return form, version
    function = _definition(lone, version, wanted) if not lone.node.domain else None
    if function is None:
        return None
    body, version = function
    if any(entry.domain not in (None, "", ONNX) for entry in body.opset_import):
        return None
    form.nodes = _inlined(body, lone, version)
    form.types = _with_shapes(form, version)
    for node in form.nodes:
        for attribute in entries(node, "attribute"):
            if attribute.g is not None:
                attribute.g.node = _graph_converted(attribute.g, version, wanted)
    return form, version


def _with_shapes(form: NodeForm, version: int) -> dict[str, Type]:
    """The types of the values in a definition, with the shapes that onnx infers."""
    lone = form.lone
    inputs = [ValueInfo(name, lone.types.get(name)) for name in lone.node.input if name and name not in lone.constants]
    graph = Graph(name="definition", node=form.nodes, input=inputs, initializer=[*lone.constants.values()])
    model = inferred(Model(IR_VERSION, opset_import=[OperatorSetId("", version)], graph=graph))
    values = model.graph.value_info if model is not None and model.graph is not None else ()
    return {value.name or "": value.type for value in values if value.type is not None}


def _graph_converted(graph: Graph, version: int, wanted: int) -> list[Node]:
    """The nodes of a graph in a definition, in another version of the set; nothing is known of their types."""
    taken = Names(name for node in graph.node for name in (*node.input, *node.output))
    nodes: list[Node] = []
    constants: dict[str, Tensor] = {}
    for node in graph.node:
        if (tensor := constant_of_node(node)) is not None:
            constants[node.output[0]] = tensor
        form = converted(_single(node, {}, constants), version, wanted)
        _put_in_place(form, node, taken)
        nodes += [*map(constant_node, form.constants.values()), *form.nodes]
    return nodes


def _definition(lone: LoneNode, version: int, wanted: int) -> tuple[Function, int] | None:
    """ONNX's definition of an operator as a function, and the operator set of its nodes: the nearest to `wanted`."""
    if any(each.ref_attr_name for each in entries(lone.node, "attribute")):
        return None
    if not is_function(ONNX, lone.operator, since(lone.operator, version) or 0):
        return None
    with needed("onnx", f"definitions of {lone.operator} by other operators"):
        import onnx.defs
    if version > onnx.defs.onnx_opset_version():
        return None
    schema: Any = onnx.defs.get_schema(lone.operator, version, "")

    def nearest(versions: Iterable[int]) -> int | None:
        older = [each for each in versions if each <= wanted]
        return max(older) if older else min(versions, default=None)

    if (chosen := nearest(schema.function_opset_versions)) is not None:
        data = schema.get_function_with_opset_version(chosen)
    elif (chosen := nearest(schema.context_dependent_function_opset_versions)) is not None:
        if any(name and name not in lone.types for name in lone.node.input):
            return None  # its definition depends on types that are not known
        types = [encoded(lone.types[name]) if name else b"" for name in lone.node.input]
        try:
            data = schema.get_context_dependent_function_with_opset_version(
                chosen, encoded(lone.node, without_large_data), types
            )
        except Exception:
            return None
    return (decode(Literal(data), Function), chosen) if chosen is not None and data else None


def _inlined(function: Function, lone: LoneNode, version: int) -> list[Node]:
    """The nodes of a function with the names and the attributes of a node that calls it."""
    names = dict(zip(function.input, (*lone.node.input, *[""] * len(function.input)), strict=False))
    names |= dict(zip(function.output, lone.node.output, strict=False))
    values = {each.name: each for each in lone.node.attribute}
    values = _defaults("", lone.operator, version) | values
    inner = Graph(node=function.node)
    rename(inner, {name: name if new is None else new for name, new in names.items()}, values)
    _with_plain_constants(inner)
    return inner.node


def _with_plain_constants(graph: Graph) -> None:
    """Give constants their value as a tensor: onnxruntime 1.8 knows no other attribute, such as `value_ints`."""
    for index, node in enumerate(graph.node):
        if (tensor := constant_of_node(node)) is not None:
            graph.node[index] = constant_node(tensor)
        for _, inner in subgraphs_of(node):
            _with_plain_constants(inner)


def rename(graph: Graph, names: Mapping[str, str], values: Mapping[str | None, Attribute] | None) -> None:
    """Give a graph and its subgraphs other names of values; `values` are attributes in place of references to them."""
    for node in graph.node:
        node.input = [names.get(name, name) for name in node.input]
        node.output = [names.get(name, name) for name in node.output]
        kept = []
        for attribute in entries(node, "attribute"):
            if attribute.ref_attr_name and values is not None:
                if (value := values.get(attribute.ref_attr_name)) is None:
                    continue
                attribute = replace(value, name=attribute.name)
            for inner in (attribute.g, *entries(attribute, "graphs")):
                if inner is not None:
                    rename(inner, names, values)
                    for info in inner.output:
                        info.name = names.get(info.name or "", info.name)
            kept.append(attribute)
        node.attribute = kept


# Whether the result is valid


def _check(node: Node, version: int, types: Mapping[str, Type]) -> None:
    """Raises: NoFormError for an attribute, a number of inputs or a type that the operator does not have."""
    operator, domain = node.op_type or "", node.domain or ONNX
    signature, form = signature_of(domain, operator, version), form_of(domain, operator, version)
    if signature is None or form is None:
        raise NoFormError(f"version {version} of {domain} has no operator {operator}")
    if reason := _form_problem(node, form, version) or _type_problem(node, signature, version, types):
        raise NoFormError(reason)


def _form_problem(node: Node, form: OperatorForm, version: int) -> str:
    """What a form of the operator does not have, or needs."""
    assert form.inputs is not None, "a deprecated operator has no types"
    forms = versions_of(node.domain or ONNX, node.op_type or "")
    for word, names, wanted in (("input", node.input, form.inputs), ("output", node.output, form.outputs)):
        if not wanted.least <= len(names) <= wanted.most:
            counts = {number: getattr(other, f"{word}s") for number, other in forms.items() if number > version}
            later = [number for number, count in counts.items() if count and count.least <= len(names) <= count.most]
            if first := min(later, default=0):
                return f"{node.op_type} with {len(names)} {word}s has no form before operator set {first}"
            return f"version {version} of the operator has {wanted} {word}s, not {len(names)}"
        omitted = (index for index, name in enumerate(names) if not name and wanted.letters[index : index + 1] == "S")
        if (index := next(omitted, None)) is not None:
            return f"it needs {word} {index}"
    given = {each.name or "": each for each in node.attribute}
    for name, each in given.items():
        if name not in form.attributes:
            later = [number for number, other in forms.items() if number > version and name in other.attributes]
            if later:
                return f"{node.op_type} with the attribute {name:.80} has no form before operator set {min(later)}"
            return f"version {version} of the operator has no attribute {name!r:.80}"
        if each.type not in (None, form.attributes[name][0]):
            return f"its attribute {name!r:.80} has another type in version {version} of the operator"
    missing = (  # graphs come back when the node is put into its model
        name
        for name, (kind, is_required) in form.attributes.items()
        if is_required and kind not in GRAPHS and name not in given
    )
    return "".join(f"it needs the attribute {name!r}" for name in [*missing][:1])


def _defaults(domain: str, operator: str, version: int) -> dict[str | None, Attribute]:
    """The attributes of an operator that mean the same as none."""
    row = operator_of(domain, operator, version)
    return {} if row is None else {each.name: each for each in row.defaults}


def _drop_defaults(node: Node, wanted: int, given: int) -> None:
    """Drop attributes that the form of one version lacks, and that mean the same as none in the other version."""
    domain, operator = node.domain or "", node.op_type or ""
    mine, other = (form_of(domain or ONNX, operator, version) for version in (wanted, given))
    if mine is None or mine.inputs is None or other is None or other.inputs is None:
        return
    defaults = _defaults(domain, operator, given)
    node.attribute = [
        each for each in node.attribute if each.name in mine.attributes or defaults.get(each.name) != each
    ]


def _type_problem(node: Node, signature: TypeSignature, version: int, types: Mapping[str, Type]) -> str:
    """Which value has a type that the operator does not accept, as far as types are known."""
    same: dict[str, str] = {}
    for names, formals in ((node.input, signature.inputs), (node.output, signature.outputs)):
        for index, name in enumerate(names):
            text = operator_type_text(types.get(name))
            formal = formals[min(index, len(formals) - 1)] if formals else None
            if not text or formal is None:
                continue
            if text not in signature.allowed(formal):
                return f"{node.op_type} accepts no {text} in version {version}"
            if formal.is_same and same.setdefault(formal.name, text) != text:
                return f"{node.op_type} does not accept {same[formal.name]} with {text} in version {version}"
    return ""


def instance(form: NodeForm, node: Node, fresh: Callable[[str], str]) -> tuple[list[Node], list[Tensor]]:
    """New nodes and constants for a node of the model, of which `form` has what it becomes; `fresh` makes new names."""
    nodes = [copied(new) for new in form.nodes]
    constants = [copied(tensor) for tensor in form.constants.values()]
    names = _names_in_model(form, node, fresh)
    rename(Graph(node=nodes), names, None)
    for tensor in constants:
        tensor.name = names[tensor.name or ""]
    same = next((new for new in nodes if new.op_type == node.op_type), nodes[-1])  # the one that takes its place
    attributes = {attribute.name: attribute for attribute in entries(node, "attribute")}
    for new in nodes:
        new.name = node.name if new is same or not node.name else fresh(f"{node.name}_{new.op_type}")
        new.domain = node.domain
        new.metadata_props = [copied(entry) for entry in entries(node, "metadata_props")]
        new.doc_string = node.doc_string if new is same else None
        new.attribute = [_with_weights(attribute, attributes) for attribute in new.attribute]
    if same.op_type == node.op_type and not form.is_defined:  # subgraphs are no part of a form
        present = {attribute.name for attribute in same.attribute}
        graphs = (attribute for attribute in attributes.values() if attribute.g is not None or attribute.graphs)
        same.attribute += [attribute for attribute in graphs if attribute.name not in present]
    return nodes, constants


def _names_in_model(form: NodeForm, node: Node, fresh: Callable[[str], str]) -> dict[str, str]:
    """The names in the model for those in a form: the node's own for `i0` and `o0`, new ones for new values."""
    ends = [(f"i{index}", name) for index, name in enumerate(node.input)]
    ends += [(f"o{index}", name) for index, name in enumerate(node.output)]
    names = {in_form: name for in_form, name in ends if name}
    near = label_of(node) or node.op_type or ""
    for name in (*(name for new in form.nodes for name in new.output), *form.constants):
        if name and name not in names:
            names[name] = fresh(near)
    return names


def _with_weights(attribute: Attribute, originals: Mapping[str | None, Attribute]) -> Attribute:
    """The attribute; one with a tensor is that of the model, since a form may have it without its weights."""
    original = originals.get(attribute.name)
    return original if attribute.t is not None and original is not None and original.t is not None else attribute

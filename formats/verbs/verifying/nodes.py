"""Checks nodes against ONNX's operator sets: operators, attributes, and the numbers of inputs and outputs.

Spec: ONNX docs, "Operators.md" and "IR.md"; the order of the checks is that of `onnx.checker`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.ir import walk
from formats.ir.model import VALUE_FIELDS, entries, values_held
from formats.ir.sameness import content
from formats.onnxpb.operator_sets import ONNX, form_of, newest, versions_of
from formats.onnxpb.wire.schema import ENUMS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from formats.ir.model import Attribute, Node, OperatorSetId
    from formats.onnxpb.operator_sets import Form, Parameters

NOTE = "note "  # in front of the kind of what is no error
TYPE_NAMES = {number: name for name, number in ENUMS["AttributeProto.AttributeType"].items()}
FIRST_WITH_OPSETS = 3  # from this ir_version on, a model must name its operator sets
FIRST_WITH_TYPES = 2  # from this ir_version on, an attribute must say its type
# Operators that were removed before ONNX 1.5, and that `onnx.checker` lets pass.
REMOVED = {"ATen", "Affine", "ConstantFill", "Crop", "DynamicSlice", "GRUUnit", "GivenTensorFill", "ImageScaler"}
REMOVED |= {"ParametricSoftplus", "Scale", "ScaledTanh"}
# onnxruntime registers these in the domain of ONNX for each version, and language models are full of them.
OF_ONNXRUNTIME = {"LayerNormalization", "SimplifiedLayerNormalization"}


class NodeCheck:
    """Checks the nodes of one graph or function with its operator sets; equal nodes are checked once.

    `imports` are the operator sets, `functions` the domains and names of the model's functions.
    """

    def __init__(
        self,
        imports: Sequence[OperatorSetId],
        functions: Collection[tuple[str, str]],
        ir_version: int,
        in_function: bool,
    ) -> None:
        self.versions = {entry.domain or ONNX: entry.version or 0 for entry in imports}
        self.spelled = {entry.domain or "" for entry in imports if (entry.domain or ONNX) == ONNX}
        if ir_version < FIRST_WITH_OPSETS:
            self.versions.setdefault(ONNX, 1)
        self.functions = functions
        self.ir_version, self.in_function = ir_version, in_function
        self._known: dict[Any, tuple[tuple[str, str, str], ...]] = {}

    def problems(self, node: Node, inputs: Sequence[str], outputs: Sequence[str]) -> Sequence[tuple[str, str, str]]:
        """What is wrong with a node, as (kind, place in the node, detail)."""
        attributes = content(entries(node, "attribute"))
        if attributes is None:
            return list(self._problems(node))
        key = (
            node.domain,
            node.op_type,
            len(inputs),
            len(outputs),
            "" in inputs and tuple(map(bool, inputs)),
            "" in outputs and tuple(map(bool, outputs)),
            attributes,
        )
        if (found := self._known.get(key)) is None:
            found = self._known[key] = tuple(self._problems(node))
        return found

    def _problems(self, node: Node) -> Iterator[tuple[str, str, str]]:
        operator, domain = node.op_type or "", node.domain or ONNX
        inputs, outputs, attributes = entries(node, "input"), entries(node, "output"), entries(node, "attribute")
        if not operator:
            yield "operator", "", "the node has no op_type"
            return
        if not inputs and not outputs:
            yield "graph", "", f"{operator:.80} has neither inputs nor outputs"
        for attribute in attributes:
            yield from self._in_attribute(attribute)
        if operator in REMOVED and domain == ONNX:
            yield f"{NOTE}operator", "", f"{operator} was an experimental operator, and no operator set has it"
            return
        if domain == ONNX and (node.domain or "") not in self.spelled and self.spelled:
            other = next(iter(self.spelled))
            detail = f"the node has the domain {node.domain or ''!r}, and the import {other!r}"
            yield f"{NOTE}opset", "", f"{detail}: these are the same, but not for onnx.checker"
        version = self.versions.get(domain)
        known = newest(domain)
        if version is None or known is None or version > known or (domain, operator) in self.functions:
            return
        form = form_of(domain, operator, version)
        if form is None and domain == ONNX and operator in OF_ONNXRUNTIME:
            detail = f"version {version} of {domain} has no {operator}, but onnxruntime has, and exporters write it"
            yield f"{NOTE}operator", "", detail
        elif form is None:
            yield "operator", "", _unknown(domain, operator, version)
        elif form.inputs is None:
            yield "operator", "", f"{operator} is deprecated, and version {version} of {domain} does not have it"
        else:
            yield from _numbers(operator, "input", inputs, form.inputs)
            yield from _numbers(operator, "output", outputs, form.outputs)
            yield from _attributes(f"{operator} of version {version}", attributes, form)

    def _in_attribute(self, attribute: Attribute) -> Iterator[tuple[str, str, str]]:
        """What is wrong with an attribute, whatever operator has it."""
        step, name = walk.inner_place("", "attribute", None, attribute), attribute.name or ""
        held = values_held(attribute)
        if not name:
            yield "attribute", step, "the attribute has no name"
        if attribute.type is None and self.ir_version >= FIRST_WITH_TYPES:
            yield "attribute", step, f"the attribute {name!r:.80} has no type"
        if len(held) > 1:
            yield "attribute", step, f"the attribute {name!r:.80} has {len(held)} values, in {' and '.join(held)}"
        elif held and attribute.type is not None and attribute.type != VALUE_FIELDS.index(held[0]):
            found = TYPE_NAMES.get(attribute.type, attribute.type)
            yield "attribute", step, f"the attribute {name!r:.80} has the type {found}, but its value is in {held[0]}"
        if attribute.ref_attr_name and held:
            yield "attribute", step, f"the attribute {name!r:.80} has a value, and refers to another attribute"
        elif attribute.ref_attr_name and not self.in_function:
            yield "attribute", step, f"{name!r:.80} refers to an attribute of a function, but is in none"


def _unknown(domain: str, operator: str, version: int) -> str:
    """Why a version of a set does not have an operator."""
    forms = versions_of(domain, operator)
    if forms:
        return f"version {version} of {domain} does not have {operator:.80}, which is new in version {min(forms)}"
    return f"{domain} has no operator {operator:.80}"


def _numbers(operator: str, word: str, names: Sequence[str], wanted: Parameters) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the number of inputs or outputs, or with omitted ones."""
    if not wanted.least <= len(names) <= wanted.most:
        plural = "" if wanted.most == wanted.least == 1 else "s"
        yield "operator", "", f"{operator} has {len(names)} {word}s, but needs {wanted} {word}{plural}"
    for index, (name, letter) in enumerate(zip(names, wanted.letters, strict=False)):
        if not name and letter == "S":
            yield "operator", f"{word}[{index}]", f"{operator} cannot omit its {word} {index}"


def _attributes(operator: str, attributes: Sequence[Attribute], form: Form) -> Iterator[tuple[str, str, str]]:
    """What the operator set says against the attributes."""
    seen = set()
    for attribute in attributes:
        name, step = attribute.name or "", walk.inner_place("", "attribute", None, attribute)
        if name in seen:
            yield "attribute", step, f"{operator} has the attribute {name!r:.80} twice"
        seen.add(name)
        if name.startswith("__"):  # of the program that runs the model
            continue
        if name not in form.attributes:
            yield "attribute", step, f"{operator} has no attribute {name!r:.80}"
            continue
        wanted, _ = form.attributes[name]
        if attribute.type is not None and attribute.type != wanted:
            found = TYPE_NAMES.get(attribute.type, attribute.type)
            yield "attribute", step, f"{name!r:.80} of {operator} must be {TYPE_NAMES[wanted]}, but is {found}"
        elif not attribute.ref_attr_name and wanted in _MESSAGES and getattr(attribute, VALUE_FIELDS[wanted]) is None:
            yield "attribute", step, f"{name!r:.80} of {operator} has no value"
    for name, (_, required) in form.attributes.items():
        if required and name not in seen:
            yield "attribute", "", f"{operator} needs the attribute {name!r}"


# Types whose value is a message: a writer may omit a number that is 0, or an empty text, but not these.
_MESSAGES = frozenset(map(VALUE_FIELDS.index, ("t", "g", "sparse_tensor", "tp")))

"""Checks nodes against ONNX's operator sets: operators, attributes, and the numbers of inputs and outputs.

Spec: ONNX docs, "Operators.md" and "IR.md"; the order of the checks is that of `onnx.checker`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.ir import FIRST_WITH_ATTRIBUTE_TYPES, FIRST_WITH_OPERATOR_SETS, ONNX, dtypes, walk
from formats.ir.model import VALUE_FIELDS, AttributeType, entries, values_held
from formats.onnxpb.operator_sets import form_of, newest, versions_of
from formats.onnxpb.value_types import BY_ATTRIBUTE
from formats.onnxruntime import BEFORE_ONNX
from formats.words import counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from formats.ir.model import Attribute, Function, Node, OperatorSetId
    from formats.onnxpb.operator_sets import OperatorForm, ParameterCounts

TYPE_NAMES: dict[int, str] = {number.value: number.name for number in AttributeType}
# Operators that were removed before ONNX 1.5. `onnx.checker` lets them pass, but no runtime has them.
REMOVED = {"ATen", "Affine", "ConstantFill", "Crop", "DynamicSlice", "GRUUnit", "GivenTensorFill", "ImageScaler"}
REMOVED |= {"ParametricSoftplus", "Scale", "ScaledTanh"}


FunctionsByName = dict[str, dict[str, list["Function"]]]
"""The functions of a model by domain and name; several differ in the overload."""


def functions_by_name(functions: Iterable[Function]) -> FunctionsByName:
    """The functions by domain and name."""
    found: FunctionsByName = {}
    for function in functions:
        found.setdefault(function.domain or ONNX, {}).setdefault(function.name or "", []).append(function)
    return found


class NodeCheck:
    """Checks the nodes of one graph or function with its operator sets, and with the functions of the model."""

    def __init__(
        self,
        imports: Sequence[OperatorSetId],
        functions: FunctionsByName,
        ir_version: int,
        in_function: bool,
    ) -> None:
        self.versions = {entry.domain or ONNX: entry.version or 0 for entry in imports}
        self.spelled = {entry.domain or "" for entry in imports if (entry.domain or ONNX) == ONNX}
        if ir_version < FIRST_WITH_OPERATOR_SETS:
            self.versions.setdefault(ONNX, 1)
        self.functions = functions
        self.ir_version, self.in_function = ir_version, in_function

    def problems(self, node: Node) -> Iterator[tuple[str, str, str]]:
        """What is wrong with a node, as (code, place in the node, detail)."""
        operator, domain = node.op_type or "", node.domain or ONNX
        inputs, outputs, attributes = entries(node, "input"), entries(node, "output"), entries(node, "attribute")
        if not operator:
            yield "V401", "", "the node has no op_type"
            return
        if not inputs and not outputs:
            yield "V313", "", f"{operator:.80} has neither inputs nor outputs"
        for attribute in attributes:
            yield from self._in_attribute(attribute)
        if operator in REMOVED and domain == ONNX:
            yield "V402", "", f"{operator} was an experimental operator, and no operator set has it"
            return
        if domain == ONNX and (node.domain or "") not in self.spelled and self.spelled:
            other = next(iter(self.spelled))
            detail = f"the node has the domain {node.domain or ''!r}, and the import {other!r}"
            yield "V210", "", f"{detail}: these are the same, but not for onnx.checker"
        if called := self.functions.get(domain, {}).get(operator):
            if len(called) == 1:  # else the overload decides
                yield from _call(operator, called[0], inputs, outputs)
            return
        version = self.versions.get(domain)
        known = newest(domain)
        if version is None or known is None or version > known:
            if domain in self.functions and domain != ONNX:
                yield "V408", "", f"the model has functions of {domain:.80}, but none is called {operator:.80}"
            return
        form = form_of(domain, operator, version)
        if form is None and domain == ONNX and operator in BEFORE_ONNX:
            detail = f"version {version} of {domain} has no {operator}, but onnxruntime has, and exporters write it"
            yield "V403", "", detail
        elif form is None:
            yield "V404", "", _unknown(domain, operator, version)
        elif form.inputs is None:
            yield "V405", "", f"{operator} is deprecated, and version {version} of {domain} does not have it"
        else:
            yield from _numbers(operator, "input", inputs, form.inputs)
            yield from _numbers(operator, "output", outputs, form.outputs)
            yield from _attributes(f"{operator} of version {version}", attributes, form)
            if domain == ONNX:
                yield from _values(operator, attributes)

    def _in_attribute(self, attribute: Attribute) -> Iterator[tuple[str, str, str]]:
        """What is wrong with an attribute, whatever operator has it."""
        step, name = walk.inner_place("", "attribute", None, attribute), attribute.name or ""
        fields = values_held(attribute)
        if not name:
            yield "V411", step, "the attribute has no name"
        if attribute.type is None and self.ir_version >= FIRST_WITH_ATTRIBUTE_TYPES:
            yield "V412", step, f"the attribute {name!r:.80} has no type"
        if len(fields) > 1:
            yield "V413", step, f"the attribute {name!r:.80} has {len(fields)} values, in {' and '.join(fields)}"
        elif fields and attribute.type is not None and attribute.type != VALUE_FIELDS.index(fields[0]):
            stated = TYPE_NAMES.get(attribute.type, attribute.type)
            yield "V414", step, f"the attribute {name!r:.80} has the type {stated}, but its value is in {fields[0]}"
        if attribute.ref_attr_name and fields:
            yield "V415", step, f"the attribute {name!r:.80} has a value, and refers to another attribute"
        elif attribute.ref_attr_name and not self.in_function:
            yield "V416", step, f"{name!r:.80} refers to an attribute of a function, but is in none"


def _unknown(domain: str, operator: str, version: int) -> str:
    """Why a version of a set does not have an operator."""
    forms = versions_of(domain, operator)
    if forms:
        return f"version {version} of {domain} does not have {operator:.80}, which is new in version {min(forms)}"
    return f"{domain} has no operator {operator:.80}"


def _numbers(operator: str, word: str, names: Sequence[str], wanted: ParameterCounts) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the number of inputs or outputs, or with omitted ones."""
    if not wanted.least <= len(names) <= wanted.most:
        plural = "" if wanted.most == wanted.least == 1 else "s"
        yield "V406", "", f"{operator} has {counted(len(names), word)}, but needs {wanted} {word}{plural}"
    for index, (name, letter) in enumerate(zip(names, wanted.letters, strict=False)):
        if not name and letter == "S":
            yield "V407", f"{word}[{index}]", f"{operator} cannot omit its {word} {index}"


def _call(
    operator: str, function: Function, inputs: Sequence[str], outputs: Sequence[str]
) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the number of inputs or outputs of a call of a function; the last ones may be omitted."""
    for word, names, formal in (("input", inputs, function.input), ("output", outputs, function.output)):
        if len(names) > len(formal):
            detail = f"{counted(len(names), word)}, but the function has {counted(len(formal), word)}"
            yield "V406", "", f"{operator:.80} has {detail}"


def _values(operator: str, attributes: Sequence[Attribute]) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the values of attributes that name an element type, or that are the result."""
    if operator == "Constant":
        values = [attribute.name for attribute in attributes if not (attribute.name or "").startswith("__")]
        if len(values) != 1:
            yield "V422", "", f"Constant needs one value, but has {len(values)}"
    elif operator in BY_ATTRIBUTE:
        name, _ = BY_ATTRIBUTE[operator]
        for attribute in attributes:
            number = attribute.i or 0
            is_number = TYPE_NAMES.get(attribute.type or 0) == "INT" and not attribute.ref_attr_name
            if attribute.name == name and is_number and number not in dtypes.BY_NUMBER:
                step = walk.inner_place("", "attribute", None, attribute)
                yield "V422", step, f"{name!r} of {operator} is {number}, which is no element type"


def _attributes(operator: str, attributes: Sequence[Attribute], form: OperatorForm) -> Iterator[tuple[str, str, str]]:
    """What the operator set says against the attributes."""
    seen = set()
    for attribute in attributes:
        name, step = attribute.name or "", walk.inner_place("", "attribute", None, attribute)
        if name in seen:
            yield "V417", step, f"{operator} has the attribute {name!r:.80} twice"
        seen.add(name)
        if name.startswith("__"):  # of the program that runs the model
            continue
        if name not in form.attributes:
            yield "V418", step, f"{operator} has no attribute {name!r:.80}"
            continue
        wanted, _ = form.attributes[name]
        if attribute.type is not None and attribute.type != wanted:
            stated = TYPE_NAMES.get(attribute.type, attribute.type)
            yield "V419", step, f"{name!r:.80} of {operator} must be {TYPE_NAMES[wanted]}, but is {stated}"
        elif not attribute.ref_attr_name and wanted in _MESSAGES and getattr(attribute, VALUE_FIELDS[wanted]) is None:
            yield "V420", step, f"{name!r:.80} of {operator} has no value"
    for name, (_, required) in form.attributes.items():
        if required and name not in seen:
            yield "V421", "", f"{operator} needs the attribute {name!r}"


# Types whose value is a message: a writer may omit a number that is 0, or an empty text, but not these.
_MESSAGES = frozenset(map(VALUE_FIELDS.index, ("t", "g", "sparse_tensor", "tp")))

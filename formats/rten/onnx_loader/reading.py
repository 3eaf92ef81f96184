"""How RTen's ONNX loader reads a node: what stops it, and whether it reads two nodes as the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from formats.rten.graph.attribute_tables import Problem, attribute_value, encode_fields
from formats.rten.graph.attributes import find, get_ints, get_string
from formats.rten.operators import spec_of
from formats.rten.operators.shared.spec import ANY, FieldKind

if TYPE_CHECKING:
    from formats.ir.model import Attribute, Node
    from formats.rten.convert.scope import Scope
    from formats.rten.operators.shared.spec import OperatorSpec, Row
    from formats.rten.target import Target

LACKING: Final = "RTen does not support this operator"


def problems(node: Node, target: Target) -> list[Problem]:
    """The reason why the loader does not read a node. Subgraphs are not checked."""
    spec = spec_of(node)
    row = None if spec is None else spec.row_for(target)
    if spec is None or row is None:
        return [Problem(LACKING)]
    found: list[Problem] = []
    others = (*spec.onnx_loader.inputs, "auto_pad")  # it reads any text as padding, and SAME_LOWER as SAME_UPPER
    moved = [each for each in node.attribute if each.name not in others]
    inputs = len(_trimmed(node.input))
    if len(moved) < len(node.attribute):
        node = _with_attributes(node, moved)
    encode_fields(row, spec.onnx_loader.takes, node, lambda name, graph: {}, found, target=target)
    if row.inputs is not None and inputs > row.inputs:
        found.append(Problem(f"it has {inputs} inputs, but RTen accepts only {row.inputs}"))
    return found


def without_neutral(node: Node, spec: OperatorSpec) -> Node:
    """The node without those attributes that have no effect and that the loader does not accept."""
    neutral = {} if spec.to_rten.row is None else spec.to_rten.row.neutral
    kept = [each for each in node.attribute if not _is_unread(each, neutral, spec.onnx_loader.takes)]
    return node if len(kept) == len(node.attribute) else _with_attributes(node, kept)


def _is_unread(attribute: Attribute, neutral: Any, takes: Any) -> bool:
    """Whether an attribute has no field and no effect, and the loader does not accept its value."""
    allowed, taken = neutral.get(attribute.name), takes.get(attribute.name)
    if allowed is None or taken is ANY:
        return False
    value = attribute_value(attribute)
    return (allowed is ANY or value in allowed) and (taken is None or value not in taken)


def is_same(given: Node, made: Node, spec: OperatorSpec, scope: Scope, target: Target) -> bool:
    """Whether the loader reads a node in the same way as the rewritten node, which has the same operator and values."""
    row = spec.row_for(target)
    if row is None or given.op_type != made.op_type or given.output != made.output or problems(given, target):
        return False
    return _have_same_inputs(given, made, spec, scope) and _fields(given, made, spec, row, scope) == _fields(
        made, made, spec, row, scope
    )


def _have_same_inputs(given: Node, made: Node, spec: OperatorSpec, scope: Scope) -> bool:
    """Whether the loader gives two nodes the same inputs. The first node may have some inputs as attributes."""
    promoted = {
        place: found for name, place in spec.onnx_loader.inputs.items() if (found := find(given, name)) is not None
    }
    left, right = _trimmed(given.input), _trimmed(made.input)
    left += [""] * (max(promoted, default=-1) + 1 - len(left))
    if len(left) != len(right):
        return False
    for place, (mine, other) in enumerate(zip(left, right, strict=True)):
        if place in promoted and not mine:
            value = attribute_value(promoted[place])
            held = scope.numbers(other) if other and scope.constant(other) is not None else None
            if held != list(map(float, value if isinstance(value, tuple) else (value,))):
                return False
        elif mine != other:
            return False
    return True


def _fields(node: Node, made: Node, spec: OperatorSpec, row: Row, scope: Scope) -> dict[str, Any]:
    """What the loader reads of the attributes of a node."""
    found: dict[str, Any] = {}
    for field in row.fields:
        name = field.onnx_name
        if name in spec.onnx_loader.inputs:
            continue
        attribute = find(node, name)
        value = spec.onnx_loader.defaults.get(name, field.default) if attribute is None else attribute_value(attribute)
        if field.kind is FieldKind.GRAPH:
            value = id(value)
        elif name == "auto_pad":
            value = "SAME" if str(value).startswith("SAME") else "NOTSET"
        elif name == "axis" and isinstance(value, int):
            dims = scope.type_of(node.input[0]).dims if node.input else None
            value = value if dims is None else value % max(len(dims), 1)
        elif name in spec.onnx_loader.omitted and value is None:
            entries, fill = spec.onnx_loader.omitted[name]
            value = (fill,) * (len(get_ints(node, "kernel_shape") or ()) * entries)
        found[name] = value
    if (
        get_string(node, "auto_pad") == "SAME_UPPER"
        and spec.onnx_loader.pads_alike
        and get_ints(made, "pads") is not None
    ):
        found |= {"auto_pad": "NOTSET", "pads": tuple(get_ints(made, "pads") or ())}
    return found


def needed_version(node: Node, spec: OperatorSpec) -> int:
    """The operator set that has the form of a node in which rewritings write it."""
    form = spec.onnx_loader
    return max(form.version, *(form.versions.get(attribute.name or "", 0) for attribute in node.attribute), 0)


def _trimmed(names: list[str]) -> list[Any]:
    """The names, without the empty ones at the end."""
    found = list(names)
    while found and not found[-1]:
        found.pop()
    return found


def _with_attributes(node: Node, attributes: list[Attribute]) -> Node:
    from dataclasses import replace

    return replace(node, attribute=attributes)

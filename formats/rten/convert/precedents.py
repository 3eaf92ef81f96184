"""Reuses the result of rewriting a node for nodes that are like it.

Large graphs repeat themselves: most nodes have the same attributes and input types as an earlier node.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.ir import STANDARD_DOMAINS
from formats.ir.copies import copies
from formats.rten.graph.attributes import attributes_key, with_fields
from formats.rten.operators import SPECS
from formats.rten.types import FLOATS

if TYPE_CHECKING:
    from formats.ir.model import Attribute, Node
    from formats.rten.convert.context import Constants, ValueNames
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import ValueType
    from formats.rten.spec import OperatorSpec

    Likeness = tuple[Any, ...]


class Precedent(NamedTuple):
    """The result for a node: its new attributes, or `None` if they stay, and the types of its outputs.

    `scalars` are the places of inputs that are constants of one element and became scalars.
    """

    spec: OperatorSpec
    attributes: list[Attribute] | None  # of which each node gets a copy
    types: list[ValueType]
    scalars: tuple[int, ...]


class Precedents:
    """The precedents of one model. Without them, 40,000 nodes take 2.5 times as long to .rten, and 1.4 times back.

    They rely on this: if the `OperatorSpec` of a node is plain, only the node's likeness decides its result. The
    likeness is its operator, its operator set (a function has its own, and a precedent never crosses operator sets),
    its attributes, the types of its inputs, the declared types of its outputs, and which of its outputs after the
    first are read. A node is a precedent only if its result is one node of the same operator, inputs and outputs, and
    all outputs are floats: for integers, the contents may be known, too.
    """

    def __init__(self, names: ValueNames) -> None:
        self._names = names
        self._precedents: dict[Likeness, Precedent] = {}

    def likeness(self, node: Node, spec: OperatorSpec | None, version: int, scope: Scope) -> Likeness | None:
        """A key that is equal for two nodes with the same result; `None` if a node must be processed by itself.

        `spec` is ONNX's operator with the name of the node's.
        """
        if spec is None or not spec.to_rten.is_plain or node.domain not in STANDARD_DOMAINS:
            return None
        names = node.input
        ranges = scope.ranges
        if spec.outputs.range is not None and (
            (ranges and not ranges.keys().isdisjoint(names)) or scope.knows_numbers(names)
        ):
            return None
        # How a value was expanded decides the form of a node, and the types do not show it.
        if scope.expanded and not scope.expanded.isdisjoint((tuple(names), tuple(reversed(names)))):
            return None
        attributes = attributes_key(node)
        if attributes is None:
            return None
        types, declared = scope.types, scope.declared
        inputs = [types.get(name) for name in names]
        if None in inputs:  # omitted, or of an outer graph
            inputs = [scope.type_of(name) if name else None for name in names]
        outputs = [declared.get(name) for name in node.output]
        read_outputs = [self._names.is_read(name) for name in node.output[1:]] if len(outputs) > 1 else ()
        return spec.name, version, attributes, len(inputs), *inputs, *outputs, *read_outputs

    def follow(self, likeness: Likeness, node: Node, constants: Constants) -> Node | None:
        """The result for a node, whose outputs are known from then on; `None` if there was no node like it."""
        precedent = self._precedents.get(likeness)
        if precedent is None:
            return None
        spec, attributes, types, scalars = precedent
        scope = constants.scope
        result = node
        if scalars:
            inputs = node.input[:]  # a copy, since the given node must not change
            for place in scalars:
                tensor = scope.constant(inputs[place])
                if tensor is None:
                    return None
                inputs[place] = constants.add_scalar(inputs[place], tensor)
            result = with_fields(node, input=inputs)
        if attributes is not None:
            result = with_fields(result, attribute=copies(attributes))
        scope.types.update(zip(node.output, types, strict=True))
        scope.note_maker(result, spec)  # for intervals, if somebody asks
        return result

    def add(self, likeness: Likeness | None, node: Node, results: list[Node], constants: Constants) -> None:
        """Remember the result for a node, if it is one node with the same operator and the same values.

        All outputs must be floats: for integers, the scope may know the contents, too.
        """
        if likeness is None or len(results) != 1:
            return
        (result,) = results
        types = [constants.scope.types[name] for name in node.output]
        if (result.op_type, result.output, len(result.input)) != (node.op_type, node.output, len(node.input)):
            return
        # The only input that may differ is a constant of one element that became a scalar: each node needs its own.
        changed = [place for place, name in enumerate(node.input) if result.input[place] != name]
        if (
            all(constants.is_scalar_of(result.input[place], node.input[place]) for place in changed)
            and all(entry.elem_type in FLOATS for entry in types)
            and (result is node or attributes_key(result) is not None)
        ):
            attributes = None if result is node else copies(result.attribute)
            self._precedents[likeness] = Precedent(SPECS[node.op_type or ""], attributes, types, tuple(changed))

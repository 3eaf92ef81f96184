"""Reuses the result of rewriting a node for nodes that are like it.

Large graphs repeat themselves: most nodes have the same attributes and input types as an earlier node.
"""

from __future__ import annotations

from marshal import dumps
from typing import TYPE_CHECKING, Any, NamedTuple

from formats.rten.graph.attributes import alike, shared_attributes, with_fields
from formats.rten.operators import SPECS
from formats.rten.operators.shared.spec import STANDARD_DOMAINS
from formats.rten.types import FLOATS

if TYPE_CHECKING:
    from formats.ir.alike import Alike
    from formats.ir.model import Node
    from formats.rten.convert.context import Constants, ValueNames
    from formats.rten.convert.scope import Scope
    from formats.rten.convert.value_types import ValueType

    Likeness = tuple[Any, ...]


class Precedent(NamedTuple):
    """The result for a node: its new attributes, or `None` if they stay, and the types of its outputs.

    `scalars` are the places of inputs that are constants of one element and became scalars.
    """

    attributes: Alike | None
    types: list[ValueType]
    scalars: tuple[int, ...]


class Precedents:
    """The precedents of one model. Without them, 40,000 nodes take 2.5 times as long to .rten, and 1.4 times back.

    They rely on this: if the `OperatorSpec` of a node is plain, only the node's likeness decides its result. The
    likeness is its operator, its operator set (a function has its own, and a precedent never crosses operator sets),
    its attributes, the types of its inputs, the declared types of its outputs, and which of its outputs after the
    first are read. Attributes are compared by value, or by the undecoded
    object that nodes with the same bytes share; the likeness keeps that object, so no other object can get its id. A
    node is a precedent only if its result is one node of the same operator, inputs and outputs, and all outputs are
    floats: for integers, the contents may be known, too.
    """

    def __init__(self, names: ValueNames) -> None:
        self._names = names
        self._found: dict[Likeness, Precedent] = {}

    def likeness(self, node: Node, version: int, scope: Scope) -> Likeness | None:
        """A key that is equal for two nodes with the same result; `None` if a node must be processed by itself."""
        spec = SPECS.get(node.op_type or "") if node.domain in STANDARD_DOMAINS else None
        if spec is None or not spec.is_plain:
            return None
        if spec.range is not None and (
            any(name in scope.ranges for name in node.input) or scope.knows_numbers(node.input)
        ):
            return None
        if scope.expanded and not scope.expanded.isdisjoint((tuple(node.input), tuple(reversed(node.input)))):
            return None
        attributes: Any = shared_attributes(node)
        if isinstance(attributes, list):
            try:  # different for values that differ, even only in type or in the sign of zero
                attributes = dumps([*map(vars, attributes)], 2)
            except ValueError:  # for a tensor or graph
                return None
        inputs = [*map(scope.types.get, node.input)]
        if None in inputs:  # omitted, or of an outer graph
            inputs = [scope.type_of(name) if name else None for name in node.input]
        declared = map(scope.declared.get, node.output)
        wanted = map(self._names.is_read, node.output[1:])
        return node.op_type, version, attributes, len(inputs), *inputs, *declared, *wanted

    def follow(self, likeness: Likeness | None, node: Node, constants: Constants) -> Node | None:
        """The result for a node, whose outputs are known from then on; `None` if there was no node like it."""
        found = self._found.get(likeness) if likeness else None
        if found is None:
            return None
        scope = constants.scope
        made = node
        if found.scalars:
            inputs = node.input[:]
            for place in found.scalars:
                tensor = scope.constant(inputs[place])
                if tensor is None:
                    return None
                inputs[place] = constants.add_scalar(inputs[place], tensor)
            made = with_fields(node, input=inputs)
        if found.attributes is not None:
            made = with_fields(made, undecoded={**node.undecoded, "attribute": found.attributes})
            vars(made).pop("attribute", None)
        for name, value_type in zip(node.output, found.types, strict=True):
            scope.types[name] = value_type
        scope.note_maker(made)
        return made

    def add(self, likeness: Likeness | None, node: Node, became: list[Node], constants: Constants) -> None:
        """Remember the result for a node, if it is one node with the same operator and the same values.

        All outputs must be floats: for integers, the scope may know the contents, too.
        """
        if likeness is None or len(became) != 1:
            return
        (made,) = became
        types = [constants.scope.types[name] for name in node.output]
        if (made.op_type, made.output, len(made.input)) != (node.op_type, node.output, len(node.input)):
            return
        changed = [place for place, name in enumerate(node.input) if made.input[place] != name]
        attributes = None if made is node else alike(made.attribute)
        if (
            all(constants.is_scalar_of(made.input[place], node.input[place]) for place in changed)
            and all(entry.elem_type in FLOATS for entry in types)
            and (made is node or attributes is not None)
        ):
            self._found[likeness] = Precedent(attributes, types, tuple(changed))

"""An If whose condition is a constant becomes the nodes of the branch that it takes.

Spec: ONNX operators, If; ONNX IR, "Names Within a Graph".
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from formats.editing.nodes import constant_node
from formats.editing.renaming import apply
from formats.editing.scopes import all_messages, defined_in, fresh, scope_of
from formats.ir.attributes import attribute_named
from formats.ir.model import Graph, Node, entries

if TYPE_CHECKING:
    from formats.ir.model import Model


class Names:
    """How many graphs of a model define a name, so that what moves from one to another can get a name of its own."""

    def __init__(self, model: Model) -> None:
        self.counts = Counter(
            name for graph in all_messages(model) if isinstance(graph, Graph) for name in defined_in(graph)
        )
        self.taken = {*self.counts}
        self.numbers: dict[str, int] = {}

    def fresh(self, name: str) -> str:
        """A name that no value has."""
        return fresh(name, self.taken, self.numbers)


def branch_of(node: Node, *, condition: bool) -> Graph | None:
    """The branch that an If takes; `None` if it does not fit the node."""
    attribute = attribute_named(node, "then_branch" if condition else "else_branch")
    branch = None if attribute is None else attribute.g
    is_right = branch is not None and not branch.input and len(branch.output) >= len(node.output)
    return branch if is_right else None


def inlined(node: Node, branch: Graph, into: Graph, names: Names, *, with_initializers: bool) -> list[Node]:
    """The nodes of the branch of an If, with the names of its outputs; all else of the branch goes to the other graph.

    Its initializers become nodes if the other graph cannot have them.
    """
    scope = scope_of(branch, "")
    made = {name for inner in branch.node for name in inner.output if name}
    outputs: dict[str, str] = {}
    copies: list[Node] = []  # of what the branch passes on: outer values, initializers, and one value twice
    for output, value in zip(node.output, branch.output, strict=False):
        if output and value.name in made and value.name not in outputs:
            outputs[value.name] = output
        elif output:
            copies.append(Node([value.name or ""], [output], None, "Identity"))
    new_names = {
        id(inner.message): {name: names.fresh(name) for name in sorted(inner.defined) if names.counts[name] > 1}
        for inner in scope.all_inner()
    }
    own = new_names[id(branch)] = new_names[id(branch)] | outputs
    apply(scope, new_names, {})
    for copy in copies:
        copy.input = [outputs.get(name, own.get(name, name)) for name in copy.input]
    for field in ("sparse_initializer", "quantization_annotation"):
        if moved := entries(branch, field):
            setattr(into, field, [*entries(into, field), *moved])
    described = [value for value in entries(branch, "value_info") if value.name not in node.output]
    into.value_info = [*entries(into, "value_info"), *described]
    constants = [] if with_initializers else [constant_node(tensor) for tensor in branch.initializer]
    if with_initializers:
        into.initializer = [*into.initializer, *branch.initializer]
    return [*constants, *branch.node, *copies]

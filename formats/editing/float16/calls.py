"""A model without functions: each call is replaced by the nodes of its function.

The values of a function have no types of their own, so only a call says which of them are float32.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.editing.operator_sets import ONNX, version_of, with_opset
from formats.editing.scopes import defined_in, subgraphs, used_in
from formats.editing.shapes import all_messages
from formats.errors import UnsupportedError
from formats.ir.functions import expand, expanded_size, functions_of, key_of
from formats.ir.names import Names

if TYPE_CHECKING:
    from formats.ir.model import Function, Graph, Model, Node

    Key = tuple[str, str, str]

MOST_NODES, MOST_DEPTH = 10_000_000, 100  # of what replaces one call


def without_functions(model: Model) -> int:
    """Replace the calls in a model by the nodes of their functions, and return how many there were.

    Raises: UnsupportedError if functions need another operator set than the model, or call each other in a circle.
    """
    if not model.functions:
        return 0
    if (version := version_of(model.opset_import)) is not None:
        changed, _ = with_opset(model, version)
        model.functions = changed.functions
    _import_sets(model)
    functions = functions_of(model.functions)
    names = Names(name for message in all_messages(model) for name in defined_in(message) | used_in(message))
    sizes: dict[Key, float] = {}
    model.functions = []
    return sum(_expand_in(message, functions, names, sizes) for message in [*all_messages(model)])


def _import_sets(model: Model) -> None:
    """Import the operator sets of functions that the model does not import yet."""
    known = {_domain(entry.domain): entry.version for entry in model.opset_import}
    called = {function.domain for function in model.functions}
    for function in model.functions:
        for entry in function.opset_import:
            domain = _domain(entry.domain)
            if domain not in known:
                known[domain] = entry.version
                model.opset_import.append(entry)
            elif known[domain] != entry.version and domain not in called:
                raise UnsupportedError(
                    f"the function {function.name} uses version {entry.version} of {domain or 'ai.onnx'}, and the "
                    f"model version {known[domain]}; functions are written out for float16, so both must be the same"
                )


def _domain(name: str | None) -> str:
    return "" if (name or "") in ONNX else name or ""


def _expand_in(message: Graph | Function, functions: dict[Key, Function], names: Names, sizes: dict[Key, float]) -> int:
    """Replace the calls among the nodes of a graph, and those in the subgraphs of what replaces them."""
    waiting, done, count = [*reversed(message.node)], [], 0
    while waiting:
        node = waiting.pop()
        key = key_of(node.domain, node.op_type, node.overload)
        if key not in functions:
            done.append(node)
            continue
        if expanded_size(key, functions, sizes, MOST_DEPTH) > MOST_NODES:
            raise UnsupportedError(f"the function {key[1]} calls itself, or has too many nodes")
        count += 1
        made = expand(node, functions[key], names)
        for each in made:
            for inner in _graphs_in(each):
                count += _expand_in(inner, functions, names, sizes)
        waiting += reversed(made)
    if count:
        message.node = done
    return count


def _graphs_in(node: Node) -> list[Graph]:
    return [graph for _, graph in subgraphs(node)]

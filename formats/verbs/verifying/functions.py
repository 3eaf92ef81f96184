"""Checks the functions of a model together: their names, their calls of each other, and their operator sets.

Spec: onnx.proto, FunctionProto; ONNX docs, "IR.md", "Model Local Functions".
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from formats.ir.functions import called, key_of
from formats.onnxpb.operator_sets import ONNX, newest, signatures_of
from formats.verbs.verifying.cycles import cycle_numbers, shortest_cycle

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from formats.ir.model import Function, Model

    Problem = tuple[str, str, str]


def function_problems(model: Model) -> Iterator[Problem]:
    """What is wrong with the functions of a model as a whole, as (code, place, detail)."""
    keys = [key_of(function.domain, function.name, function.overload) for function in model.functions]
    for (domain, name, _), count in Counter(keys).items():
        if count > 1:
            yield "V317", "functions", f"{count} functions are called {name:.80} of {domain or ONNX:.80}"
    first = {key: index for index, key in reversed([*enumerate(keys)])}
    needs = [
        list(dict.fromkeys(first[key] for node in function.node for key in called(node) if key in first))
        for function in model.functions
    ]
    groups = cycle_numbers(needs)
    for start in sorted({min(i for i in groups if groups[i] == group) for group in set(groups.values())}):
        cycle = shortest_cycle(start, needs, groups)
        names = [f"{keys[index][1]:.80}" for index in (*cycle, cycle[0])]
        yield "V318", f"functions[{start}]", f"functions call each other in a cycle: {' <- '.join(names[:8])}"
    versions = {entry.domain or ONNX: entry.version or 0 for entry in model.opset_import}
    for index, function in enumerate(model.functions):
        yield from _imports(f"functions[{index}]", function, versions)


def _imports(where: str, function: Function, versions: Mapping[str, int]) -> Iterator[Problem]:
    """What is wrong with the operator sets of a function: a runtime may compute it with those of the model."""
    others = {
        domain: version
        for domain, version in ((entry.domain or ONNX, entry.version or 0) for entry in function.opset_import)
        if versions.get(domain, version) != version and newest(domain) is not None
    }
    told = set()
    for index, node in enumerate(function.node if others else ()):
        domain, name = node.domain or ONNX, node.op_type or ""
        if domain not in others or (domain, name) in told:
            continue
        told.add((domain, name))
        own, models = (_since(domain, name, number) for number in (others[domain], versions[domain]))
        if own != models:
            detail = f"the function imports version {others[domain]} of {domain}, the model {versions[domain]}"
            yield "V211", f"{where}.node[{index}]", f"{detail}, in which {name:.80} differs"


def _since(domain: str, name: str, version: int) -> int:
    """The version in which an operator got the form that it has in `version`; 0 if it has none."""
    return max((since for since in signatures_of(domain, name) if since <= version), default=0)

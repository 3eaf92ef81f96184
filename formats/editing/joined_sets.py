"""Operator sets of two models brought together.

An operator set is imported by one version in a model. A node means the same in two versions if its operator did not
change between them; the package onnx knows this.

Spec: ONNX, "Versioning.md".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.editing.extraction import all_nodes
from formats.errors import EditError
from formats.ir.model import OperatorSetId
from formats.python.extras import needed

if TYPE_CHECKING:
    from formats.ir.model import Model, Node

ONNX = "ai.onnx"


def join_sets(first: Model, second: Model) -> None:
    """Import in the first model what both need, in the newer version of each set.

    Raises: EditError if an operator of one of the models is another one in the newer version; MissingPackageError if
    that is not known without onnx.
    """
    versions = [
        {_domain(entry.domain): entry.version or 0 for entry in model.opset_import} for model in (first, second)
    ]
    for domain, version in versions[1].items():
        mine = versions[0].get(domain)
        if mine is None:
            first.opset_import.append(OperatorSetId(domain, version))
        elif mine != version:
            older, which = (first, "first") if mine < version else (second, "second")
            _check_same(older, which, domain, min(mine, version), max(mine, version))
            for entry in first.opset_import:
                if _domain(entry.domain) == domain:
                    entry.version = max(mine, version)


def _domain(domain: str | None) -> str:
    """The name of an operator set, "" for ONNX's own."""
    return "" if domain in (None, ONNX) else domain or ""


def _check_same(model: Model, which: str, domain: str, old: int, new: int) -> None:
    """Raises EditError if a node of a model has another operator in the newer version of a set."""
    name = domain or ONNX
    hint = f"convert the {which} model to version {new} first"
    known = not domain or domain.startswith(f"{ONNX}.")
    nodes = [node for node in all_nodes([model.graph]) if _domain(node.domain) == domain]
    functions = {(function.domain or "", function.name) for function in model.functions}
    if not known:
        if all((domain, node.op_type) in functions for node in nodes):
            return
        raise EditError(f"the models import {name} {old} and {new}, and nobody knows what changed between them")
    with needed("onnx", "models with two versions of an operator set"):
        import onnx.defs
    for node in nodes:
        if (domain, node.op_type) not in functions and not _is_same(onnx.defs, node, domain, old, new):
            place = f"{node.op_type} {node.name}" if node.name else node.op_type
            raise EditError(f"{place} of the {which} model is another operator in {name} {new} than in {old}; {hint}")


def _is_same(defs: object, node: Node, domain: str, old: int, new: int) -> bool:
    """Whether an operator did not change between two versions of its set."""
    get = getattr(defs, "get_schema")  # noqa: B009 - the package has no types
    try:
        versions = {get(node.op_type, version, domain).since_version for version in (old, new)}
    except Exception:  # the set does not have the operator: `verify` tells that
        return False
    return len(versions) == 1

"""Operator sets of two models brought together: a model imports each set in one version.

Spec: ONNX, "Versioning.md".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.editing.edits import Done
from formats.editing.extraction import all_nodes
from formats.editing.operator_sets import ONNX, version_of, with_opset, with_other_set
from formats.editing.scopes import main_graph
from formats.errors import EditError, UnsupportedError
from formats.ir.copies import copied
from formats.ir.model import OperatorSetId

if TYPE_CHECKING:
    from formats.ir.model import Model

OF_ONNX = "ai.onnx."  # the start of the names of its other sets


def with_same_sets(first: Model, second: Model) -> tuple[Model, Model, Done]:
    """Both models with the same version of each operator set that both import, and what was converted.

    The newer version of ONNX's own operators counts, or the older one if a node cannot be converted to the newer. Of
    ONNX's other sets, the older version counts.

    Raises: UnsupportedError if a node cannot be converted; EditError for two versions of a set of somebody else;
    MissingPackageError if onnx is needed, but not installed.
    """
    done = Done()
    given = version_of(first.opset_import), version_of(second.opset_import)
    if None not in given and given[0] != given[1]:
        older, newer = sorted(version or 0 for version in given)
        try:
            first, second, done = _in_set(first, second, newer)
        except UnsupportedError as error:
            try:
                first, second, done = _in_set(first, second, older)
            except UnsupportedError:
                raise error from None
    for domain, versions in sorted(_versions_in_both(first, second).items()):
        if domain.startswith(OF_ONNX):
            first, of_first = with_other_set(first, domain, min(versions))
            second, of_second = with_other_set(second, domain, min(versions))
            done += of_first + of_second
        elif not (_has_all(first, domain) and _has_all(second, domain)):
            reason = "and nobody knows what changed between them"
            raise EditError(f"the models import {domain} {versions[0]} and {versions[1]}, {reason}")
    return first, second, done


def _in_set(first: Model, second: Model, version: int) -> tuple[Model, Model, Done]:
    """Both models with this version of ONNX's own operators, and what was converted."""
    first, of_first = with_opset(first, version)
    second, of_second = with_opset(second, version)
    return first, second, of_first + of_second


def join_imports(first: Model, second: Model) -> None:
    """Import in the first model what the second one imports; versions that still differ mean nothing."""
    known = {_domain(entry): entry for entry in first.opset_import}
    for entry in second.opset_import:
        if _domain(entry) in known:
            mine = known[_domain(entry)]
            mine.version = max(mine.version or 0, entry.version or 0)
        else:
            first.opset_import.append(copied(entry))


def _domain(entry: OperatorSetId) -> str:
    return "" if entry.domain in (None, *ONNX) else entry.domain or ""


def _versions_in_both(first: Model, second: Model) -> dict[str, tuple[int, int]]:
    """The versions of the sets that both import, but not in the same one, without ONNX's own."""
    mine = {_domain(entry): entry.version or 0 for entry in first.opset_import}
    theirs = {_domain(entry): entry.version or 0 for entry in second.opset_import}
    both = (domain for domain in mine.keys() & theirs.keys() if domain)
    return {domain: (mine[domain], theirs[domain]) for domain in both if mine[domain] != theirs[domain]}


def _has_all(model: Model, domain: str) -> bool:
    """Whether the model itself defines all operators of a set that it uses."""
    own = {(function.domain or "", function.name) for function in model.functions}
    nodes = all_nodes([main_graph(model), *model.functions])
    return all((domain, node.op_type) in own for node in nodes if node.domain == domain)

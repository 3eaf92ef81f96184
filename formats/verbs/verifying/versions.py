"""Checks what a model says of itself: its versions, and whether its types and fields are as old as they say.

Spec: onnx.proto, `Version`; ONNX docs, "Versioning.md".
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from formats.ir.model import entries
from formats.onnxpb.newer_parts import NEWEST_IR_VERSION
from formats.onnxpb.operator_sets import newest
from formats.verbs.verifying.nodes import FIRST_WITH_OPSETS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formats.ir.model import Model, OperatorSetId


def version_problems(model: Model) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the versions of a model, as (code, place, detail)."""
    ir_version = model.ir_version
    if not ir_version:
        yield "V201", "ir_version", "the model has no ir_version"
    elif ir_version < 0:
        yield "V201", "ir_version", f"the ir_version is {ir_version}"
    elif ir_version > NEWEST_IR_VERSION:
        detail = f"the ir_version {ir_version} is newer than {NEWEST_IR_VERSION}, the newest that is known"
        yield "V202", "ir_version", f"{detail}, so the model cannot be checked"
    elif ir_version < FIRST_WITH_OPSETS and model.opset_import:
        yield "V203", "opset_import", f"a model of ir_version {ir_version} cannot import operator sets"
    has_nodes = model.graph is not None and entries(model.graph, "node")  # which need a set; their check reports it
    if not model.opset_import and not has_nodes and (ir_version or FIRST_WITH_OPSETS) >= FIRST_WITH_OPSETS:
        yield "V204", "opset_import", "the model imports no operator set"
    yield from import_problems("", model.opset_import)
    for index, function in enumerate(model.functions):
        yield from import_problems(f"functions[{index}].", function.opset_import)
    for key, count in Counter(entry.key for entry in entries(model, "metadata_props")).items():
        if count > 1:
            yield "V107", "metadata_props", f"{count} entries have the key {key!r:.80}"


def import_problems(where: str, imports: Sequence[OperatorSetId]) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the versions of the operator sets that a model or function imports."""
    for index, entry in enumerate(imports):
        place, domain = f"{where}opset_import[{index}]", entry.domain or "ai.onnx"
        known = newest(domain)
        if entry.version is None or (known is not None and entry.version < 1):
            yield "V205", place, f"the version of {domain:.80} is {entry.version or 'missing'}"
        elif known is not None and entry.version > known:
            detail = f"version {entry.version} of {domain} is newer than {known}, the newest that is known"
            yield "V206", place, f"{detail}; its operators were not checked"

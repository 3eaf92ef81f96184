"""Checks what a model says of itself: its versions, and whether its types and fields are as old as they say.

Spec: onnx.proto, `Version`; ONNX docs, "Versioning.md".
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from formats.ir.model import entries
from formats.onnxpb.newer_parts import NEWEST_IR_VERSION
from formats.onnxpb.operator_sets import newest
from formats.verbs.verifying.nodes import FIRST_WITH_OPSETS, NOTE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from formats.ir.model import Model, OperatorSetId


def version_problems(model: Model) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the versions of a model, as (kind, place, detail); a kind with `NOTE` is no error."""
    ir_version = model.ir_version
    if not ir_version:
        yield "version", "ir_version", "the model has no ir_version"
    elif ir_version > NEWEST_IR_VERSION:
        detail = f"the ir_version {ir_version} is newer than {NEWEST_IR_VERSION}, the newest that is known"
        yield f"{NOTE}version", "ir_version", detail
    elif ir_version < FIRST_WITH_OPSETS and model.opset_import:
        yield "version", "opset_import", f"a model of ir_version {ir_version} cannot import operator sets"
    has_nodes = model.graph is not None and entries(model.graph, "node")  # which need a set; their check reports it
    if not model.opset_import and not has_nodes and (ir_version or FIRST_WITH_OPSETS) >= FIRST_WITH_OPSETS:
        yield f"{NOTE}version", "opset_import", "the model imports no operator set"  # it needs none without nodes
    yield from import_problems("", model.opset_import)
    for index, function in enumerate(model.functions):
        yield from import_problems(f"functions[{index}].", function.opset_import)
    for key, count in Counter(entry.key for entry in entries(model, "metadata_props")).items():
        if count > 1:
            yield "metadata", "metadata_props", f"{count} entries have the key {key!r:.80}"


def import_problems(where: str, imports: Sequence[OperatorSetId]) -> Iterator[tuple[str, str, str]]:
    """What is wrong with the versions of the operator sets that a model or function imports."""
    for index, entry in enumerate(imports):
        place, domain = f"{where}opset_import[{index}]", entry.domain or "ai.onnx"
        known = newest(domain)
        if entry.version is None or (known is not None and entry.version < 1):
            yield "version", place, f"the version of {domain:.80} is {entry.version or 'missing'}"
        elif known is not None and entry.version > known:
            detail = f"version {entry.version} of {domain} is newer than {known}, the newest that is known"
            yield f"{NOTE}version", place, f"{detail}; its operators were not checked"

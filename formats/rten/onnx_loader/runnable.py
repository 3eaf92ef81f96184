"""Rewrites an ONNX model to ONNX that RTen runs with the results that ONNX defines.

A node stays as it is if RTen's ONNX loader reads it and RTen's kernel computes what ONNX says. All other nodes are
rewritten as for a .rten file. The steps after that are in `passes.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from formats.codecs.contract import Runnable
from formats.ir.model import Graph
from formats.rten.convert.legalize import legalize
from formats.rten.convert.refusal import RefusalError
from formats.rten.onnx_loader.passes import LoaderWork, readable_model
from formats.rten.target import ONNX_LOADER

if TYPE_CHECKING:
    from formats.ir.model import Model
    from formats.rten.convert.legalize import Legalized
    from formats.rten.onnx_loader.kept import Kept

MAX_RAISINGS: Final = 4  # changes of the operator set, each to a newer one


def runnable(model: Model, exact: bool = False) -> Runnable:
    """The model as ONNX that RTen runs; the given one is not changed, and weights are shared.

    If `exact`, nodes whose results in RTen differ from ONNX for special values are rewritten, too.

    Raises: TensorDataError if a constant that decides a form cannot be read.
    """
    given = _version(model)
    legalized, version, needing = _legalized(model, exact, given)
    work = LoaderWork(
        given=model,
        given_version=given,
        needed_version=version,
        needing=needing,
        model=legalized.model,
        graph=legalized.model.graph or Graph(),
        elem_types={found.elem_type for types in legalized.types.values() for found in types.values()},
        losses=legalized.losses,
        refusals=[*legalized.refusals],
        changes=_kept(legalized).changes,
    )
    made = readable_model(work)
    error = RefusalError(work.refusals) if work.refusals else None
    stops = () if error is None else tuple(error.reasons)
    return Runnable(made, work.losses.lines(), tuple(work.changes), error, stops)


def _version(model: Model) -> int:
    """The operator set of ONNX's own operators that a model imports."""
    versions = {entry.domain or "": entry.version or 1 for entry in model.opset_import}
    return versions.get("", versions.get("ai.onnx", 1))


def _legalized(model: Model, exact: bool, version: int) -> tuple[Legalized, int, str]:
    """The legal model, in the operator set that has the forms of its nodes, and an operator that needs this set."""
    legalized = legalize(model, exact, ONNX_LOADER)
    needing = ""
    for _ in range(MAX_RAISINGS):
        needs = _kept(legalized).needs
        if needs[0] <= version:
            break
        version, needing = needs
        legalized = legalize(model, exact, ONNX_LOADER._replace(version=version))
    return legalized, version, needing


def _kept(legalized: Legalized) -> Kept:
    assert legalized.kept is not None
    return legalized.kept

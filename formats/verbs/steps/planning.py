"""Plan what is written: choose the codec, give the model the operators of the target, and plan its files."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from formats.codecs import lookup
from formats.codecs.lookup import ONNXRUNTIME
from formats.collector import collector_paused
from formats.errors import OptionError
from formats.ir.archive_link import without_link
from formats.options import made
from formats.verbs.arguments import model_of
from formats.verbs.choices import RaisingOptions

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import Unpack

    from formats.codecs.contract import Change, Codec
    from formats.editing.edits import Edit
    from formats.ir.model import Model
    from formats.keywords import RaiseKeywords
    from formats.tensordata.plan import Loss, WritePlan
    from formats.verbs.arguments import AnyModel
    from formats.verbs.choices import Choice


def raise_model(model: AnyModel, **options: Unpack[RaiseKeywords]) -> tuple[Model, tuple[Loss, ...]]:
    """Return the model with ONNX's operators, as `save` would write it to an `.onnx` file, and the losses.

    It returns `model` itself unless the model was read from a `.rten` file. `options` are `RaisingOptions`.

    Raises: FormatError for a model that is not well formed, or if a type is not possible.
    """
    model = model_of(model)
    own = own_codec(model)
    if own is None:
        return model, ()
    pin = made(RaisingOptions, options, by=raise_model).pin or {}
    with collector_paused():
        return own.raise_model(model, pin)


def target_of(destination: Path, name: str | None, called: str = "format") -> Codec:
    """The codec of the format `name`, or of the extension; `called` is the caller's name for the argument `name`."""
    return lookup.for_writing(destination, called) if name is None else lookup.by_name(name)


class Planned(NamedTuple):
    """The plan for writing a model, what was rewritten for its runtime, and what was done for its versions."""

    plan: WritePlan
    changes: tuple[Change, ...]
    edits: tuple[Edit, ...]


def plan_of_any(model: AnyModel, target: Codec, destination: Path, chosen: Choice) -> Planned:
    """The plan for writing a model of the caller, in which any field may have a value of any type."""
    from formats.onnxpb.wire.assigned import check_assigned
    from formats.onnxpb.wire.encoder import misfits_located

    with misfits_located(own := model_of(model)), collector_paused():
        if own is model:  # what others made is written as it is
            check_assigned(own)
        return plan_of(own, target, destination, chosen)


def plan_of(model: Model, target: Codec, destination: Path, chosen: Choice) -> Planned:
    """The plan for writing a model with its metadata, and the changes for its runtime and its versions."""
    if not getattr(chosen.target, "keeps_references", False):
        model = without_link(model)
    losses: tuple[Loss, ...] = ()
    changes: tuple[Change, ...] = ()
    edits: tuple[Edit, ...] = ()
    if chosen.metadata:
        from formats.editing.metadata import with_metadata  # few conversions need it

        model, said = with_metadata(model, chosen.metadata)
        edits = said.edits
    if own_codec(model) not in (None, target):
        model, losses = raise_model(model, pin=chosen.raising.pin)
    elif chosen.raising.pin:
        raise OptionError("`pin` is only for models whose operators differ from the target's, such as .rten files")
    named = chosen.runtime.named
    runtime = None
    if target.domain is None and named is not None and named.name != ONNXRUNTIME:
        runtime = lookup.runtime(named.name)
        found = runtime.runnable(model, chosen.exact)
        if found.error is not None:
            raise found.error
        model, changes = found.model, found.changes
        losses += found.losses
    if target.domain is None and chosen.runtime.is_given:
        from formats.verbs.steps.versions import in_versions

        model, done = in_versions(model, chosen.runtime)
        edits += done.edits
        losses += done.losses
    plan = target.plan(model, destination, chosen.target)
    if runtime is not None:
        runtime.check_data_files(plan, getattr(chosen.target, "aligned_to", runtime.data_alignment))
    return Planned(plan._replace(losses=(*losses, *plan.losses)), changes, edits)


def own_codec(model: Model) -> Codec | None:
    """The codec to whose own operators the model's operators belong."""
    return lookup.of_domains({entry.domain for entry in model.opset_import})


def is_translated(model: Model, target: Codec) -> bool:
    """Whether the target has other operators than the model, so that the nodes become others."""
    return (own := own_codec(model)) is not target and (own is not None or target.domain is not None)

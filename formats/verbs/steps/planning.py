"""Plan what is written, and write it.

A plan: the codec is chosen, the model gets the operators of the target, and its files are laid out. Its execution
refuses losses if asked to, writes the files, and sees to the model that they replace.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, NamedTuple

from formats.codecs import lookup
from formats.collector import collector_paused
from formats.errors import OptionError, UnsupportedError
from formats.ir.archive_link import without_link
from formats.options import make_options
from formats.tensordata.engine import execute
from formats.tensordata.file import is_address, is_stream
from formats.tensordata.plan import LEFT_BEHIND, USE, Loss, losses_in_order
from formats.verbs.arguments import model_of
from formats.verbs.choices import RaisingOptions
from formats.verbs.steps.replacement import Replaced, Work, backup_of, execute_replacing, is_written, old_model
from formats.words import listed

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from typing_extensions import Unpack

    from formats.codecs.contract import Change, Codec
    from formats.editing.options import Edit
    from formats.ir.model import Model
    from formats.keywords import RaiseKeywords
    from formats.tensordata.engine import EngineOptions
    from formats.tensordata.plan import WritePlan
    from formats.verbs.arguments import AnyModel
    from formats.verbs.choices import Choice, ConversionOptions, ReplacementOptions

LOSSES_SHOWN = 10  # of those that are refused


def raise_model(model: AnyModel, **options: Unpack[RaiseKeywords]) -> tuple[Model, tuple[Loss, ...]]:
    """Return the model with ONNX's operators, as `save` would write it to an `.onnx` file, and the losses.

    It returns `model` itself unless the model was read from a `.rten` file. `options` are `RaisingOptions`.

    For example:

        >>> report = formats.convert("model.onnx", "model.rten")
        >>> model = formats.load("model.rten")
        >>> model.graph.node[0].domain
        'rten'
        >>> raised, losses = formats.raise_model(model)
        >>> raised.graph.node[0].op_type
        'Conv'

    Raises: FormatError for a model that is not well formed, or if a type is not possible.
    """
    model = model_of(model)
    own = own_codec(model)
    if own is None:
        return model, ()
    pin = make_options(RaisingOptions, options, by=raise_model).pin or {}
    with collector_paused():
        return own.raise_model(model, pin)


def target_of(destination: Path, name: str | None, called: str = "format") -> Codec:
    """The codec of the format `name`, or of the extension; `called` is the caller's name for the argument `name`."""
    return lookup.for_writing(destination, called) if name is None else lookup.by_name(name)


class Planned(NamedTuple):
    """The plan for writing a model, what was rewritten for its runtime, and what was done for its versions.

    It `is_translated` if the target has other operators than the model, so that its nodes become others.
    """

    plan: WritePlan
    changes: tuple[Change, ...]
    edits: tuple[Edit, ...]
    is_translated: bool


def plan_of_any(model: AnyModel, target: Codec, destination: Path, chosen: Choice) -> Planned:
    """The plan for writing a model of the caller, in which any field may have a value of any type."""
    from formats.onnxpb.wire.encoder import check_assigned, misfits_located

    with misfits_located(own := model_of(model)), collector_paused():
        if own is model:  # what others made is written as it is
            check_assigned(own)
        return plan_of(own, target, destination, chosen)


def plan_of(model: Model, target: Codec, destination: Path, chosen: Choice) -> Planned:
    """The plan for writing a model with its metadata, and the changes for its runtime and its versions."""
    data_files = target.data_files(chosen.writing)
    if not data_files.keeps_references:
        model = without_link(model)
    translates = is_translated(model, target)
    edits: tuple[Edit, ...] = ()
    if chosen.metadata:
        from formats.editing.model_edits import with_metadata  # few conversions need it

        model, said = with_metadata(model, chosen.metadata)
        edits = said.edits
    # First ONNX's operators, then what the runtime needs, then the versions: each step takes what the one before made.
    model, losses = _with_onnx_operators(model, target, chosen)
    named = chosen.runtime.named
    runtime = named.runtime if named is not None and target.domain is None else None
    changes: tuple[Change, ...] = ()
    if runtime is not None:
        if chosen.runtime.weights_dtype is not None:  # first, so that what the runtime lacks is rewritten
            from formats.verbs.steps.versions import with_integer_weights

            model, result = with_integer_weights(model, chosen.runtime)
            edits += result.edits
        runnable = runtime.runnable(model, chosen.exact)
        if runnable.error is not None:
            try:
                raise runnable.error
            finally:
                del runnable  # the error refers to this frame
        model, changes = runnable.model, runnable.changes
        losses += runnable.losses
    if target.domain is None and chosen.runtime.is_given:
        from formats.verbs.steps.versions import in_versions

        model, result = in_versions(model, chosen.runtime)
        edits += result.edits
        losses += result.losses
    if data_files.dedup:
        from formats.editing.weights import with_equals_joined  # few conversions need it

        model, result = with_equals_joined(model, chosen.writing)
        edits += result.edits
        losses += result.losses
    plan = target.plan(model, destination, chosen.writing)
    if runtime is not None:
        runtime.check_data_files(plan, data_files.alignment)
    return Planned(plan._replace(losses=(*losses, *plan.losses)), changes, edits, translates)


def _with_onnx_operators(model: Model, target: Codec, chosen: Choice) -> tuple[Model, tuple[Loss, ...]]:
    """The model with ONNX's operators, unless those of the target are its own, and the losses."""
    losses: tuple[Loss, ...] = ()
    if own_codec(model) not in (None, target):
        model, losses = raise_model(model, pin=chosen.raising.pin)
    elif chosen.raising.pin:
        raise OptionError("`pin` is only for models whose operators differ from the target's, such as .rten files")
    if chosen.runtime.channel_block is not None:
        from formats.onnxruntime.layouts import in_usual_layout  # few conversions need it

        model, more_losses = in_usual_layout(model, chosen.runtime.channel_block)
        losses += more_losses
    return model, losses


def own_codec(model: Model) -> Codec | None:
    """The codec to whose own operators the model's operators belong."""
    return lookup.of_domains({entry.domain for entry in model.opset_import})


def is_translated(model: Model, target: Codec) -> bool:
    """Whether the target has other operators than the model."""
    return (own := own_codec(model)) is not target and (own is not None or target.domain is not None)


def check_and_execute(
    plan: WritePlan, target: Codec, chosen: Choice, conversion: ConversionOptions
) -> tuple[WritePlan, Replaced]:
    """Execute the plan unless its losses are refused; the returned plan also has the losses of other models."""
    last = plan.files[-1].path
    if not (is_address(last) or is_stream(last)):
        of_others = target.shared_data(plan, chosen.engine.overwrite, lookup.model_extensions())
        plan = plan._replace(losses=(*plan.losses, *of_others))
    if conversion.strict:
        check_losses(plan.losses, conversion.allow)
    return execute_plan(plan, chosen.engine, chosen.replacement)


def check_losses(losses: Iterable[Loss], allow: Iterable[str] | None) -> None:
    """Raises UnsupportedError if losses matter that are not of an allowed kind."""
    allowed = frozenset(allow or ())
    if refused := losses_in_order(loss for loss in losses if loss.matters and loss.kind not in allowed):
        kinds = " ".join(f"`allow={kind}`" for kind in dict.fromkeys(loss.kind for loss in refused))
        losses_in_words = listed([f"{loss.where or 'model'}: {loss.summary}" for loss in refused], LOSSES_SHOWN, "; ")
        raise UnsupportedError(f"`strict` refuses these losses: {losses_in_words}; they pass with {kinds}")


def execute_plan(plan: WritePlan, engine: EngineOptions, replacement: ReplacementOptions) -> tuple[WritePlan, Replaced]:
    """Execute the plan, and see to the models that it replaces; the returned plan has the losses that are left."""
    last = plan.files[-1].path
    if is_address(last) or is_stream(last):
        if replacement.clean or replacement.backup:
            raise OptionError("`clean` and `backup` are for files of this system")
        execute(plan, engine)
        return plan, Replaced()  # what was there before is not known, or is gone
    models = [file.path for file in plan.files[-plan.models :]]
    if not (replacement.clean or replacement.backup):
        return plan, execute_replacing(Work(plan), engine)
    if replacement.backup and not engine.dry_run:  # a backup must be of one model, not of parts of two
        from formats.tensordata.replacing.publication import is_left
        from formats.verbs.repair import finish

        for path in filter(is_left, models):
            finish(path)
    # If these bytes are there already, the same command ran before, or was killed: the backup has the model before it.
    is_repeated = replacement.backup and all(map(is_written, plan.files))
    old = [old_model(path) for path in models if path.is_file()] if replacement.backup and not is_repeated else []
    left = {last.parent / loss.where: loss for loss in plan.losses if loss.kind == LEFT_BEHIND}
    replaced = execute_replacing(Work(plan), engine, old=old, left=left, clean=replacement.clean)
    if is_repeated:
        replaced = replaced._replace(backups=tuple(filter(os.path.exists, map(backup_of, models))))
    losses = [loss for loss in plan.losses if loss.kind != LEFT_BEHIND]
    for path, reason in replaced.stays:
        name = os.path.relpath(path, last.parent)
        losses.append(Loss(LEFT_BEHIND, name, f"{name} stays: {reason}", USE))
    return plan._replace(losses=tuple(losses)), replaced

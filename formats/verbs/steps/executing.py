"""Execute a plan: refuse losses if asked to, write the files, and see to the model that they replace."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from formats.codecs import lookup
from formats.errors import OptionError, UnsupportedError
from formats.tensordata.engine import execute
from formats.tensordata.file import is_address, is_stream
from formats.tensordata.plan import LEFT_BEHIND, USE, Loss, in_order
from formats.verbs.report import listed
from formats.verbs.steps.replacement import Replaced, Work, execute_replacing, old_model

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from formats.codecs.contract import Codec
    from formats.tensordata.engine import EngineOptions
    from formats.tensordata.plan import WritePlan
    from formats.verbs.choices import Choice, ReplacementOptions


def carry_out(
    plan: WritePlan, target: Codec, chosen: Choice, *, strict: bool, allow: Sequence[str] | None = None
) -> tuple[WritePlan, Replaced]:
    """Execute the plan, and return it; its losses include the effects on other models."""
    engine, replacement = chosen.engine, chosen.replacement
    last = plan.files[-1].path
    is_here = not (is_address(last) or is_stream(last))
    if is_here:
        of_others = target.shared_data(plan, engine.overwrite, lookup.model_extensions())
        plan = plan._replace(losses=(*plan.losses, *of_others))
    if strict:
        check_losses(plan.losses, allow)
    return execute_plan(plan, engine, replacement)


def check_losses(losses: Iterable[Loss], allow: Iterable[str] | None) -> None:
    """Raises UnsupportedError if losses matter that are not of an allowed kind."""
    allowed = frozenset(allow or ())
    if refused := in_order(loss for loss in losses if loss.matters and loss.kind not in allowed):
        kinds = " ".join(f"`allow={kind}`" for kind in dict.fromkeys(loss.kind for loss in refused))
        raise UnsupportedError(f"`strict` refuses these losses: {listed(refused)}; they pass with {kinds}")


def execute_plan(plan: WritePlan, engine: EngineOptions, replacement: ReplacementOptions) -> tuple[WritePlan, Replaced]:
    """Execute the plan, and see to the models that it replaces; the returned plan has the losses that are left."""
    last = plan.files[-1].path
    if is_address(last) or is_stream(last):
        if replacement.clean or replacement.backup:
            raise OptionError("`clean` and `backup` are for files of this system")
        execute(plan, engine)
        return plan, Replaced()
    models = [file.path for file in plan.files[-plan.models :]]
    if not (replacement.clean or replacement.backup):
        return plan, execute_replacing(Work(plan), engine)
    if replacement.backup and not engine.dry_run:
        from formats.tensordata.replacing.publication import is_left
        from formats.verbs.repair import finish

        for path in filter(is_left, models):
            finish(path)
    old = [old_model(path) for path in models if path.is_file()] if replacement.backup else []
    left = {last.parent / loss.where: loss for loss in plan.losses if loss.kind == LEFT_BEHIND}
    done = execute_replacing(Work(plan), engine, old=old, left=left, clean=replacement.clean)
    losses = [loss for loss in plan.losses if loss.kind != LEFT_BEHIND]
    for path, reason in done.stays:
        name = os.path.relpath(path, last.parent)
        losses.append(Loss(LEFT_BEHIND, name, f"{name} stays: {reason}", USE))
    return plan._replace(losses=tuple(losses)), done

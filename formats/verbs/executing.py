"""Execute a plan: refuse losses if asked to, write the files, and see to the model that they replace."""

from __future__ import annotations

from typing import TYPE_CHECKING

from formats.errors import FormatError, OptionError, UnsupportedError
from formats.tensordata.engine import execute
from formats.tensordata.file import File, is_address, is_stream
from formats.tensordata.plan import in_order
from formats.verbs.opening import open_model
from formats.verbs.replacement import Old, Replaced, execute_replacing
from formats.verbs.report import listed

if TYPE_CHECKING:
    from pathlib import Path

    from formats.codecs.contract import Codec
    from formats.tensordata.plan import WritePlan
    from formats.verbs.choices import Choice


def carry_out(plan: WritePlan, target: Codec, chosen: Choice, strict: bool) -> tuple[WritePlan, Replaced]:
    """Execute the plan, and return it; its losses include the effects on other models."""
    engine, replacement = chosen.engine, chosen.replacement
    last = plan.files[-1].path
    is_here = not (is_address(last) or is_stream(last))
    if target.shared_data is not None and is_here:
        plan = plan._replace(losses=(*plan.losses, *target.shared_data(plan, engine.overwrite)))
    losses = in_order(loss for loss in plan.losses if loss.matters)
    if strict and losses:
        raise UnsupportedError(f"`strict` refuses these losses: {listed(losses)}")
    if not (replacement.clean or replacement.backup):
        execute(plan, engine)
        return plan, Replaced(plan.losses)
    if not is_here:
        raise OptionError("`clean` and `backup` are for files of this system")
    old = _old(last) if replacement.backup and last.is_file() else None
    done = execute_replacing(plan, old, engine, clean=replacement.clean)
    return plan._replace(losses=done.losses), done


def _old(path: Path) -> Old:
    """The model at `path`, which will be replaced; whatever cannot be read is one file."""
    try:
        opened = open_model(path)
    except (FormatError, OSError):
        return Old(path, File.open(path))
    return Old(path, next(opened.source.files()), opened.codec, opened.model)

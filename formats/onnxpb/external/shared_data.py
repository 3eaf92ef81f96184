"""Data files that exist before a model is written: those of other models, and those that no model will use afterwards.

If another model in the folder refers to a data file, replacing the file changes that model, too.

Spec: onnx.proto, `TensorProto.external_data`.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from formats.codecs.contract import EXTENSIONS
from formats.errors import DecodeError, FormatError
from formats.ir import walk
from formats.ir.model import Model
from formats.ir.storage import entries_of
from formats.onnxpb.wire.decoder import decode
from formats.tensordata.file import File
from formats.tensordata.plan import INTERFACE, USE, Loss

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.tensordata.plan import WritePlan

MODELS = (".onnx",)
LEFT_BEHIND = "left_behind"  # the kind of a loss


def check_shared_data(plan: WritePlan, overwrite: bool) -> list[Loss]:
    """A loss for each model in the folder, other than those to be written, whose weights the plan replaces.

    A model that cannot be read may be one of them.

    Raises: FileExistsError if there is one that can be read, without `overwrite`.
    """
    companions, models = plan.files[: -plan.models], plan.files[-plan.models :]
    names = {file.path.name for file in companions if os.path.lexists(file.path)}
    written = {file.path.name for file in models}
    folder = models[-1].path.parent
    losses = []
    for path in sorted(folder.iterdir()) if names else ():
        if path.suffix.lower() not in MODELS or path.name in written or not path.is_file():
            continue
        try:
            found = names & references(path)
        except (FormatError, OSError):
            listed = ", ".join(sorted(names))
            detail = f"{path.name} cannot be read, so it may also have its weights in {listed}, whose content changes"
            losses.append(Loss("shared_data", path.name, detail, USE))
            continue
        if found:
            detail = f"{path.name} also has its weights in {', '.join(sorted(found))}, whose content changes"
            losses.append(Loss("shared_data", path.name, detail, INTERFACE))
            if not overwrite:
                reason = f"the data file exists, and {path.name} uses it; choose another name with `external_data`"
                raise FileExistsError(errno.EEXIST, reason, str(folder / min(found)))
    return losses


def left_behind(plan: WritePlan) -> Iterator[Loss]:
    """If the plan replaces a model: a loss for each of its data files to which no model in the folder will refer.

    The file is not removed: programs elsewhere may need it.
    """
    models = [file.path for file in plan.files[-plan.models :]]
    folder = models[-1].parent
    old = {name for model in models if os.path.lexists(model) for name in referred(model)}
    old -= {os.path.relpath(file.path, folder) for file in plan.files}
    old = {name for name in old if Path(name).suffix.lower() not in EXTENSIONS() and _is_below(Path(name), folder)}
    for path in sorted(folder.iterdir()) if old else ():
        if path.suffix.lower() in MODELS and path not in models:
            old -= referred(path)
    for name in sorted(old):
        detail = (
            f"{name} belonged to the replaced model, and stays; remove it if nothing else needs it, or next time use "
            "`clean=True`"
        )
        yield Loss(LEFT_BEHIND, name, detail, USE)


def _is_below(location: Path, folder: Path) -> bool:
    """Whether there is such a file in the folder or below it."""
    return not location.is_absolute() and ".." not in location.parts and (folder / location).is_file()


def referred(path: Path) -> set[str]:
    """The data files next to a model to which it refers; none if it cannot be read."""
    try:
        return references(path)
    except (FormatError, OSError):
        return set()


def references(path: Path) -> set[str]:
    """The data files next to a model to which it refers; they need not exist.

    Raises: FormatError if it cannot be read; OSError if the file cannot.
    """
    model = decode(File.open(path).span(), Model)
    if model.graph is None:
        raise DecodeError("there is no graph in it", path=path)
    entries = (entry for _, tensor in walk.external_tensors(model) for entry in entries_of(tensor))
    return {os.path.normpath(value or "") for key, value in entries if key == "location"}

"""Data files that exist before a model is written: those of other models, and those that no model will use afterwards.

If another model in the folder refers to a data file, replacing the file changes that model, too.

Spec: onnx.proto, `TensorProto.external_data`.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

from formats.onnxpb.external.other_graphs import OtherGraphs, referred
from formats.tensordata.plan import INTERFACE, LEFT_BEHIND, USE, Loss

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from formats.tensordata.plan import WritePlan


def check_shared_data(plan: WritePlan, overwrite: bool) -> list[Loss]:
    """A loss for each model in the folder, other than those to be written, whose weights the plan replaces.

    A model that cannot be read may be one of them.

    Raises: FileExistsError if there is one that can be read, without `overwrite`.
    """
    companions, models = plan.files[: -plan.models], [file.path for file in plan.files[-plan.models :]]
    names = {file.path.name for file in companions if os.path.lexists(file.path)}
    folder = models[-1].parent
    losses = []
    for naming in OtherGraphs(folder, models).naming([folder / name for name in names]) if names else ():
        path = naming.path
        references = naming.references()
        if references is None:
            listed = ", ".join(sorted(names))
            detail = f"{path.name} cannot be read, so it may also have its weights in {listed}, whose content changes"
            losses.append(Loss("shared_data", path.name, detail, USE))
            continue
        found = names & references
        if found:
            detail = f"{path.name} also has its weights in {', '.join(sorted(found))}, whose content changes"
            losses.append(Loss("shared_data", path.name, detail, INTERFACE))
            if not overwrite:
                reason = f"the data file exists, and {path.name} uses it; choose another name with `external_data`"
                raise FileExistsError(errno.EEXIST, reason, str(folder / min(found)))
    return losses


def left_behind(plan: WritePlan, model_extensions: Collection[str]) -> Iterator[Loss]:
    """If the plan replaces a model: a loss for each of its data files to which no model in the folder will refer.

    The file is not removed: programs elsewhere may need it. One with an extension of models is a model, no data file.
    """
    models = [file.path for file in plan.files[-plan.models :]]
    folder = models[-1].parent
    old = {name for model in models if os.path.lexists(model) for name in referred(model)}
    old -= {os.path.relpath(file.path, folder) for file in plan.files}
    paths = {name: Path(name) for name in old}
    old = {
        name for name, path in paths.items() if path.suffix.lower() not in model_extensions and _is_below(path, folder)
    }
    for naming in OtherGraphs(folder, models).naming([folder / name for name in old]) if old else ():
        old -= referred(naming.path)
    for name in sorted(old):
        detail = (
            f"{name} belonged to the replaced model, and stays; remove it if nothing else needs it, or next time use "
            "`clean=True`"
        )
        yield Loss(LEFT_BEHIND, name, detail, USE)


def _is_below(location: Path, folder: Path) -> bool:
    """Whether there is such a file in the folder or below it."""
    return not location.is_absolute() and ".." not in location.parts and (folder / location).is_file()

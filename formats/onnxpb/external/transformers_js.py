"""How transformers.js finds the data files of a model: by their number, and by names made from the model's name.

Spec: @huggingface/transformers 4.3.1, src/utils/model-loader.js and src/utils/hub/constants.js.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.errors import EncodeError, OptionError
from formats.onnxpb.options import BROWSER_LIMIT_BYTES
from formats.tensordata.plan import INTERFACE, Loss

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from formats.tensordata.plan import FilePlan

EXTENSION = ".onnx"
MAX_FILES = 100  # MAX_EXTERNAL_DATA_CHUNKS


def names(destination: Path, count: int) -> list[str]:
    """The names of the data files of a model.

    Raises: OptionError for a model that the library does not find; EncodeError for more files than it loads.
    """
    if not destination.name.endswith(EXTENSION):
        raise OptionError(f"transformers.js loads models that are called NAME{EXTENSION}, not {destination.name}")
    if count > MAX_FILES:
        reason = f"there would be {count} data files, but transformers.js loads at most {MAX_FILES}"
        raise EncodeError(f"{reason}; set a larger `max_external_file_size`", path=destination)
    return [f"{destination.name}_data{f'_{index}' if index else ''}" for index in range(count)]


def settings(destination: Path, count: int) -> dict[str, Any]:
    """The setting for the `config.json` of the model, so that the library loads this many data files."""
    return {"transformers.js_config": {"use_external_data_format": {destination.name: count}}}


def losses(files: Iterable[FilePlan]) -> Iterator[Loss]:
    """The losses for files that no browser loads."""
    for file in files:
        if file.nbytes >= BROWSER_LIMIT_BYTES:
            detail = f"{file.path.name} has {file.nbytes} bytes, but browsers load only files of less than 2 GiB"
            yield Loss("browser_limit", "", detail, INTERFACE)

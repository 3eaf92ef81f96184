"""Which weights `load` reads at once, and which it leaves in their files, as far as one can notice.

What is small is read at once, as `onnx` does: the file may then change or go away. What is larger stays in its file
until it is needed. A process may have only so many files open, so the files of further models are closed, and opened
again when their weights are needed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from formats.ir.model import SOURCE_FIELDS
from formats.tensordata.engine import EngineOptions, materialise
from formats.tensordata.sources.source import Literal, Source

if TYPE_CHECKING:
    from collections.abc import Iterable

    from formats.ir.model import Tensor
    from formats.tensordata.file import File

AT_ONCE_BYTES = 64 << 20  # of a model file, and of all its other files together; reading them takes some 20 ms
KEPT_OPEN = 200  # files; a process may often have 1024, of which models are not the only user
REMEDY = "load the model again, with num_threads=0 if its file may change: then all weights are read at once"
WEIGHTS = SOURCE_FIELDS["TensorProto"] - {"external_source"}  # those of the message

_open: WeakSet[File] = WeakSet()


def read_small(source: Source) -> Source:
    """The source, read into memory if it is small."""
    return Literal(source.read()) if source.nbytes <= AT_ONCE_BYTES else source


def read_small_weights(tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Read the weights that are in files into memory, if they are small together; tensors may also be messages."""
    places = in_files(tensors)
    if sum(source.nbytes for _, _, source in places) <= AT_ONCE_BYTES:
        read_now(places, 1)


def in_files(tensors: Iterable[tuple[str, Tensor]]) -> list[tuple[Tensor, str, Source]]:
    """The weights that are not in memory: the tensor, the name of its field, and the source."""
    return [
        (tensor, name, source)
        for _, tensor in tensors
        for name in WEIGHTS
        if (source := vars(tensor).get(name)) is not None and not isinstance(source, Literal)
    ]


def read_now(places: list[tuple[Tensor, str, Source]], threads: int) -> None:
    """Read these weights into memory."""
    read = materialise([source for _, _, source in places], EngineOptions(threads=max(threads, 0))) if places else []
    for (tensor, name, _), data in zip(places, read, strict=True):
        vars(tensor)[name] = Literal(data.toreadonly())


def keep(sources: Iterable[Any]) -> None:
    """Keep the files of these sources open, unless there are many already; no other thread may use them yet."""
    for file in {file for source in sources if source is not None for file in source.files()}:
        file.remedy = REMEDY
        if file in _open:
            continue
        if len(_open) < KEPT_OPEN:
            _open.add(file)
        else:
            file.close()

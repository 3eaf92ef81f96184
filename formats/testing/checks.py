"""The parts of the contract of codecs, a function each; each raises an AssertionError if a codec breaks it.

Spec: docs/codecs.md.
"""

from __future__ import annotations

import random
import re
from contextlib import contextmanager
from dataclasses import MISSING, fields, is_dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from unittest import mock

from formats.codecs import lookup
from formats.codecs.contract import HEAD_BYTES, Codec, Match, ReadOptions
from formats.errors import EncodeError, FormatError
from formats.ir import walk
from formats.options import option_rows
from formats.tensordata.engine import EngineOptions, execute, to_bytes
from formats.tensordata.file import File
from formats.tensordata.local.osio import LocalFile
from formats.tensordata.plan import WritePlan, check_plan
from formats.tensordata.sources.source import Literal
from formats.testing.models import linear
from formats.verbs import convert
from formats.verbs.compare import differences

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from formats.ir.model import Model

PREFIXES = 200  # of a file, each of which must be read or refused
MUTATIONS = 300
WEIGHT_BYTES_READ = 0.02  # the largest part of a file with a large weight that may be read
ENGINES = (
    EngineOptions(threads=1),
    EngineOptions(threads=2),
    EngineOptions(threads=8, chunk_bytes=1000, in_flight_bytes=1),
)


class NotSupported(Exception):  # noqa: N818 - no error: a format need not hold every model
    """The codec does not support a model, and says so as the contract requires."""


class Subject(NamedTuple):
    """A codec with the options for its checks."""

    codec: Codec
    options: Any
    reading: ReadOptions

    def path(self, folder: Path, name: str = "model") -> Path:
        """A path for a file of the format."""
        return folder / f"{name}{self.codec.extensions[0]}"

    def plan(self, model: Model, path: Path) -> WritePlan:
        """The plan for a model.

        Raises: NotSupported if the format does not support it.
        """
        try:
            return self.codec.plan(model, path, self.options)
        except EncodeError as error:
            assert not list(path.parent.iterdir()), "planning must not write files, even if it fails"
            assert str(error), "a refusal must say why"
            raise NotSupported from None

    def write(self, model: Model, path: Path) -> WritePlan:
        """Execute the plan."""
        path.parent.mkdir(exist_ok=True)
        plan = self.plan(model, path)
        execute(plan)
        return plan

    def read(self, path: Path) -> Model:
        """The model in a file."""
        return self.codec.read(File.open(path).span(), path, self.reading)


# Checks of a codec


def declaration(subject: Subject, folder: Path) -> None:
    """The name, title, extensions and options of the codec are valid."""
    codec = subject.codec
    assert re.fullmatch(r"[a-z][a-z0-9_-]*", codec.name), "the name must be a lower-case word, for --from and --to"
    assert codec.title.strip() == codec.title != "", "the title must be a text without spaces around it"
    assert codec.extensions, "the codec must have an extension"
    for extension in codec.extensions:
        assert re.fullmatch(r"(\.[a-z0-9_-]+)", extension), "an extension must be a dot and a lower-case word"
    assert is_dataclass(codec.options), "the class of options must be a dataclass"
    assert codec.options.__dataclass_params__.frozen, "the class of options must be frozen"  # type: ignore[attr-defined]
    for field in fields(codec.options):
        has_default = field.default is not MISSING or field.default_factory is not MISSING
        assert has_default, f"the option {field.name} must have a default"
    assert isinstance(subject.options, codec.options), "the options are not of the codec's class"
    others = [other for other in lookup.codecs() if other.name != codec.name]
    for other in others:
        shared = {*codec.extensions} & {*other.extensions}
        assert not shared, f"the codec {other.name} already has the extension {shared}"
    from formats.cli.command_line import flags_of
    from formats.cli.verbs import VERBS

    with mock.patch.object(lookup, "codecs", lambda: (*others, codec)):
        groups = VERBS[0].groups(True)  # those of `convert`
    flags = flags_of(group.options for group in groups)  # raises if another option has a flag
    assert {name for row in option_rows(codec.options) for flag in row.flags for name in flag.names} <= flags.keys()


def holds_a_model(subject: Subject, folder: Path) -> None:
    """The simplest model, one matrix product, is not refused."""
    try:
        subject.plan(linear(3), subject.path(folder))
    except NotSupported:
        raise AssertionError("it refuses a matrix product") from None


def sniffing_takes_anything(subject: Subject, folder: Path) -> None:
    """`sniff` accepts any bytes without raising, and does not claim files of other formats."""
    assert subject.codec.sniff(b"", 0) is not Match.STRONG
    generator = random.Random(0)  # noqa: S311 - the same numbers every time
    for size in (0, 1, 2, 3, 4, 7, 8, 15, 16, 31, 32, 100, HEAD_BYTES):
        for data in (bytes(size), b"\xff" * size, generator.randbytes(size)):
            assert subject.codec.sniff(data, size) in (Match.NONE, Match.WEAK), (
                "arbitrary bytes must not be a strong match"
            )
    for other in lookup.built_in():
        if other.name != subject.codec.name and not other.encrypted:
            data = to_bytes(other.plan(linear(3), folder / f"m{other.extensions[0]}", other.options()))
            match = subject.codec.sniff(data[:HEAD_BYTES], len(data))
            assert match is not Match.STRONG, f"a file of {other.title} must not be a strong match"


def reads_no_weight(subject: Subject, folder: Path) -> None:
    """Reading a model with a large weight reads only a small part of the file."""
    path = subject.path(folder)
    plan = subject.write(linear(3000), path)
    with _bytes_read() as read:
        model = subject.read(path)
    assert sum(read) < plan.nbytes * WEIGHT_BYTES_READ, f"{sum(read):,} bytes of {plan.nbytes:,} were read"
    assert any(tensor.source().nbytes >= 1 << 20 for _, tensor in walk.tensors(model)), "the weight is missing"


@contextmanager
def _bytes_read() -> Iterator[list[int]]:
    """The sizes of all reads from files in this context, except mappings."""
    sizes: list[int] = []
    real_into, real = LocalFile.pread_into, LocalFile.pread

    def pread_into(self: LocalFile, offset: int, buffer: Any) -> None:
        sizes.append(len(buffer))
        real_into(self, offset, buffer)

    def pread(self: LocalFile, offset: int, nbytes: int) -> bytes:
        sizes.append(nbytes)
        return real(self, offset, nbytes)

    with mock.patch.object(LocalFile, "pread_into", pread_into), mock.patch.object(LocalFile, "pread", pread):
        yield sizes


def damage_is_an_error(subject: Subject, folder: Path) -> None:
    """A truncated or changed file is either read or refused with a `FormatError`; nothing else is raised."""
    data = to_bytes(subject.plan(linear(3), subject.path(folder)))
    step = max(len(data) // PREFIXES, 1)
    for size in range(0, len(data), step):
        _read_or_refuse(subject, data[:size])
    generator = random.Random(1)  # noqa: S311 - the same numbers every time
    for _ in range(MUTATIONS):
        changed = bytearray(data)
        for _ in range(generator.randint(1, 3)):
            changed[generator.randrange(len(changed))] = generator.choice(
                (0, 1, 0x7F, 0x80, 0xFF, generator.randrange(256))
            )
        if generator.random() < 0.3:
            start = generator.randrange(len(changed))
            del changed[start : start + generator.randint(1, 9)]
        _read_or_refuse(subject, bytes(changed))


def _read_or_refuse(subject: Subject, data: bytes) -> None:
    """Read everything in a model whose bytes may be damaged."""
    subject.codec.sniff(data[:HEAD_BYTES], len(data))
    try:
        model = subject.codec.read(Literal(data), None, subject.reading)
        for _, tensor in walk.tensors(model):
            if tensor.data_type:
                tensor.source().read()
    except FormatError:
        return


# Checks of a codec with a model


def keeps_models(subject: Subject, make: Callable[[], Model], folder: Path) -> None:
    """A model that is written and read again is the same, or every difference is reported as a loss."""
    model, path = make(), subject.path(folder)
    plan = subject.write(model, path)
    again = subject.read(path)
    if subject.codec.domain is not None:
        again, _ = _raised(subject, again)
        assert again.graph is not None
        assert len(again.graph.output) == len(model.graph.output if model.graph else [])
        return
    difference = next(differences(model, again), None)
    assert difference is None or plan.losses, f"differences without a loss: {difference}"
    for loss in plan.losses:
        assert loss.kind.isidentifier(), "the kind of a loss must be an identifier"
        assert loss.detail, "the detail of a loss must not be empty"


def same_model_again(subject: Subject, make: Callable[[], Model], folder: Path) -> None:
    """Writing and reading a model a second time changes nothing more."""
    first = _reread(subject, make(), folder / "1")
    second = _reread(subject, first, folder / "2")
    assert (found := next(differences(first, second), None)) is None, str(found)


def _reread(subject: Subject, model: Model, folder: Path) -> Model:
    path = subject.path(folder)
    subject.write(model, path)
    return subject.read(path)


def same_bytes_again(subject: Subject, make: Callable[[], Model], folder: Path) -> None:
    """Planning a model twice gives the same bytes, and so does writing a model that was read."""
    first, again = subject.path(folder / "1"), subject.path(folder / "2")
    plan = subject.write(make(), first)
    subject.write(make(), again)
    assert first.read_bytes() == again.read_bytes(), "the same model must give the same bytes"
    third = subject.path(folder / "3")
    subject.write(subject.read(first), third)
    for file in plan.files:
        assert file.path.read_bytes() == (third.parent / file.path.name).read_bytes(), (
            "a model that was read must give the same bytes"
        )


def plans_are_sound(subject: Subject, make: Callable[[], Model], folder: Path) -> None:
    """A plan has the size of each file, the model is last, other files are next to it, and planning writes nothing."""
    path = subject.path(folder)
    plan = subject.plan(make(), path)
    assert not list(folder.iterdir()), "planning must write nothing"
    check_plan(plan)
    assert path == plan.files[-1].path, "the model must be the last file"
    assert all(file.path.parent == path.parent for file in plan.files), "all files must be in one folder"
    execute(plan)
    for file in plan.files:
        assert file.nbytes == file.path.stat().st_size


def engine_does_not_matter(subject: Subject, make: Callable[[], Model], folder: Path) -> None:
    """Any number of threads and any amount of memory give the same bytes, on disk and in memory."""
    path = subject.path(folder)
    plan = subject.plan(make(), path)
    written = []
    for engine in ENGINES:
        execute(plan, engine)
        written.append([file.path.read_bytes() for file in plan.files])
        for file in plan.files:
            file.path.unlink()
    assert written[0] == written[1] == written[2]
    if len(plan.files) == 1:
        assert written[0] == [to_bytes(plan)]


def own_files_are_recognised(subject: Subject, make: Callable[[], Model], folder: Path) -> None:
    """`sniff` recognizes a file that the codec wrote, and no other codec matches it as strongly."""
    path = subject.path(folder)
    subject.write(make(), path)
    data = path.read_bytes()
    match = subject.codec.sniff(data[:HEAD_BYTES], len(data))
    assert match is not Match.NONE, "the codec must match its own file"
    for other in lookup.codecs():
        if other.name != subject.codec.name:
            match_of_other = other.sniff(data[:HEAD_BYTES], len(data))
            assert match_of_other is not Match.STRONG, f"{other.title} matches the file, too"


def models_stay_as_they_are(subject: Subject, make: Callable[[], Model], folder: Path) -> None:
    """Planning and writing do not change the model."""
    model, untouched = make(), make()
    subject.write(model, subject.path(folder))
    assert untouched == model


def memory_is_as_good_as_a_file(subject: Subject, make: Callable[[], Model], folder: Path) -> None:
    """A model in one file can also be read from memory."""
    path = subject.path(folder)
    if len(subject.write(make(), path).files) > 1:
        return
    from_memory = subject.codec.read(Literal(path.read_bytes()), None, subject.reading)
    assert next(differences(subject.read(path), from_memory), None) is None


def what_is_told_holds(subject: Subject, make: Callable[[], Model], folder: Path) -> None:
    """The regions that `regions` returns do not overlap, and the checksums that `checksums` returns are well formed."""
    path = subject.path(folder)
    subject.write(make(), path)
    source = File.open(path).span()
    position = 0
    for region in sorted(subject.codec.regions(source)):
        assert position <= region.file_offset, "regions must not overlap"
        assert region.kind in ("header", "model", "tensor", "file", "directory", "padding")
        position = region.end
    assert position <= source.nbytes, "regions must be inside the file"
    model = subject.read(path)
    for checksum in subject.codec.checksums(source, model, None):
        assert re.fullmatch(r"[0-9a-f]+", checksum.expected), "a checksum must be in hexadecimal"
    lenient, notes = subject.codec.read_lenient(source, path, subject.reading)
    assert not notes, "a lenient reader must not report faults in the codec's own file"
    assert next(differences(model, lenient), None) is None
    bundle = subject.codec.bundle(source)
    assert bundle.models == (None,), "a file with one model must have the default one"
    assert subject.codec.settled(source, path) is source, "a file that was not interrupted must be as it is"


def own_operators_are_raised(subject: Subject, make: Callable[[], Model], folder: Path) -> None:
    """A model with operators of the format's own domain imports it, and can be raised to operators of ONNX."""
    domain = subject.codec.domain
    path = subject.path(folder)
    subject.write(make(), path)
    model = subject.read(path)
    assert (domain in {entry.domain for entry in model.opset_import}) == (domain is not None)
    if domain is not None:
        raised, _ = _raised(subject, model)
        assert domain not in {entry.domain for entry in raised.opset_import}, "operators of the format must not remain"
        convert.dumps(raised, "onnx")


def _raised(subject: Subject, model: Model) -> tuple[Model, Any]:
    if type(subject.codec).raise_model is Codec.raise_model:
        raise NotSupported
    return subject.codec.raise_model(model, {})


OF_CODEC: tuple[Callable[[Subject, Path], None], ...] = (
    declaration,
    holds_a_model,
    sniffing_takes_anything,
    reads_no_weight,
    damage_is_an_error,
)
OF_MODEL: tuple[Callable[[Subject, Callable[[], Model], Path], None], ...] = (
    keeps_models,
    same_model_again,
    same_bytes_again,
    plans_are_sound,
    engine_does_not_matter,
    own_files_are_recognised,
    models_stay_as_they_are,
    memory_is_as_good_as_a_file,
    what_is_told_holds,
    own_operators_are_raised,
)

"""Tests of the choice of a codec: by name, by extension for writing, and first by content for reading."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import onnx
import pytest

import formats
import formats.testing
from formats.codecs import lookup
from formats.codecs.contract import Codec, DataFileOptions, Match, Runnable, Runtime
from formats.errors import OptionError, UnknownFormatError, UnsupportedError
from formats.ir.model import Model, OperatorSetId
from formats.onnxpb.options import OnnxOptions
from formats.tensordata.plan import Loss, WritePlan
from formats.tensordata.sources.source import Source
from tests.changed_codecs import changed


def codec(name: str, match: Match) -> Codec:
    """Return a codec that gives every file the same match."""
    return changed(lookup.by_name("onnx"), name=name, extensions=(f".{name}",), sniff=lambda head, nbytes: match)


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> object:
    """Return a function that makes the given codecs the built-in ones, and others those of installed packages."""

    def replace(built_in: list[Codec], others: tuple[Codec, ...] = ()) -> None:
        monkeypatch.setattr(lookup, "built_in", lambda: tuple(built_in))
        monkeypatch.setattr(lookup, "codecs", lambda: (*built_in, *others))

    return replace


@pytest.mark.parametrize(("name", "extension"), [("onnx", ".onnx"), ("onnxz", ".onnxz"), ("rten", ".rten")])
def test_built_in_formats_are_found(name: str, extension: str) -> None:
    """Each format is found by its name, and by its extension in upper and lower case."""
    assert name == lookup.by_name(name).name
    assert name == lookup.for_writing(Path(f"a{extension}")).name
    assert name == lookup.for_writing(Path(f"a.b{extension.upper()}")).name


@pytest.mark.parametrize(
    ("matches", "path", "chosen"),
    [
        pytest.param({"a": Match.WEAK, "b": Match.STRONG}, "x.a", "b", id="a strong match beats the extension"),
        pytest.param({"a": Match.WEAK, "b": Match.WEAK}, "x.b", "b", id="the extension decides between weak ones"),
        pytest.param({"a": Match.WEAK, "b": Match.NONE}, "x.b", "a", id="a weak match beats a wrong extension"),
        pytest.param({"a": Match.NONE, "b": Match.WEAK}, None, "b", id="there may be no path"),
    ],
)
def test_content_is_recognised(only, matches: dict[str, Match], path: str | None, chosen: str) -> None:  # type: ignore[no-untyped-def]
    """A strong match decides, then the extension of a codec with a match, then a weak match."""
    only([codec(name, match) for name, match in matches.items()])
    assert chosen == lookup.for_reading(b"", 1, Path(path) if path else None).name


@pytest.mark.parametrize("field", [field.name for field in onnx.ModelProto.DESCRIPTOR.fields])
def test_each_field_of_a_model_is_known(field: str) -> None:
    """A short model without an IR version, with a graph and any other field, is recognised as ONNX."""
    proto = onnx.ModelProto(graph=onnx.GraphProto(name="g" * 40))
    row = proto.DESCRIPTOR.fields_by_name[field]
    if row.message_type is not None and row.is_repeated:
        getattr(proto, field).add()
    elif row.message_type is None:
        setattr(proto, field, "text" if row.cpp_type == row.CPPTYPE_STRING else 1)
    data = proto.SerializeToString() + b"\x12" + bytes([20]) + b"p" * 20  # the producer, behind it
    assert lookup.by_name("onnx").sniff(data, len(data)) is not Match.NONE


def test_nothing_is_recognised_that_no_codec_claims(only) -> None:  # type: ignore[no-untyped-def]
    """The extension alone does not make a file a model."""
    only([codec("a", Match.NONE)])
    with pytest.raises(UnknownFormatError, match="it is not a known kind of file"):
        lookup.for_reading(b"text", 4, Path("x.a"))


def test_installed_codecs_come_after_the_built_in_ones(only) -> None:  # type: ignore[no-untyped-def]
    """A codec of another package is used, by name, extension and content, if no built-in codec is sure of the file."""
    only([codec("a", Match.WEAK)], (codec("b", Match.STRONG), codec("a", Match.STRONG)))
    assert "b" == lookup.by_name("b").name
    assert "b" == lookup.for_writing(Path("x.b")).name
    assert "b" == lookup.for_reading(b"", 1, Path("x.a")).name
    assert Match.WEAK is lookup.by_name("a").sniff(b"", 1)


def entry(name: str, load: object) -> object:
    """Return an entry point of the package `other`."""

    class Entry:
        dist = type("Distribution", (), {"name": "other"})

        def load(self) -> object:
            if isinstance(load, Exception):
                raise load
            return load

    Entry.name = Entry.value = name  # type: ignore[attr-defined]
    return Entry()


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    """Return a function that makes the given entry points those of installed packages."""

    def offer(*entries: object) -> None:
        monkeypatch.setattr("importlib.metadata.entry_points", lambda group: [*entries] * (group == "formats.codecs"))
        lookup.installed.cache_clear()
        lookup.codecs.cache_clear()

    yield offer
    monkeypatch.undo()
    lookup.installed.cache_clear()
    lookup.codecs.cache_clear()


def test_codecs_of_packages_are_found(offered: Callable[..., None]) -> None:
    """The format of an installed package is used like any other."""
    mine = codec("mine", Match.WEAK)
    offered(entry("mine", mine))
    assert mine is lookup.by_name("mine") is lookup.for_writing(Path("a.MINE"))
    assert mine is lookup.codecs()[-1]


@pytest.mark.parametrize(
    ("load", "words"),
    [
        (ImportError("no module named torch"), "cannot be imported (ImportError: no module named torch)"),
        (ValueError("oops"), "cannot be imported (ValueError: oops)"),
        (object(), "is not a Codec, but a object"),
        (codec("onnx", Match.STRONG), "is called 'onnx', like a codec of this package"),
    ],
)
def test_broken_codecs_harm_nothing(offered: Callable[..., None], load: object, words: str) -> None:
    """A broken codec does not disturb the others; the error about an unknown format mentions it."""
    offered(entry("theirs", load), entry("mine", codec("mine", Match.WEAK)))
    assert "mine" == lookup.by_name("mine").name
    assert "onnxz" == lookup.by_name("onnxz").name
    assert lookup.by_name("onnx") in lookup.built_in()
    for fails in (
        lambda: lookup.by_name("theirs"),
        lambda: lookup.for_writing(Path("a.theirs")),
    ):
        with pytest.raises((UnknownFormatError, OptionError)) as caught:
            fails()
        assert f"; the codec 'theirs' of the package other {words}" in str(caught.value)


def test_a_broken_codec_is_told_where_nothing_reads_a_file(offered: Callable[..., None]) -> None:
    """If no codec reads a file, the error names a codec that cannot be imported."""
    offered(entry("theirs", ImportError("oops")))
    with pytest.raises(UnknownFormatError, match="the codec 'theirs' of the package other cannot be imported"):
        lookup.for_reading(b"\xff" * 100, 100, Path("a.theirs"))


def test_own_operators_of_other_packages(offered: Callable[..., None]) -> None:
    """A model in the operators of another package's codec is converted to ONNX's for other formats, and only then."""
    domain = "my.runtime"

    def plan(model: Model, destination: Path, options: object) -> WritePlan:
        own = Model(graph=model.graph, opset_import=[OperatorSetId(domain=domain, version=1)])
        return lookup.by_name("onnx").plan(own, destination, lookup.by_name("onnx").options())

    def raise_model(model: Model, pin_types: object) -> tuple[Model, tuple[Loss, ...]]:
        raised = Model(graph=model.graph, opset_import=[OperatorSetId(domain="", version=17)], ir_version=8)
        return raised, (Loss("mine", "", "raised by my codec"),)

    mine = changed(lookup.by_name("onnx"), name="mine", extensions=(".mine",), domain=domain, plan=plan)
    offered(entry("mine", changed(mine, raise_model=raise_model)))
    model = formats.testing.linear(3)
    data = formats.dumps(model, "mine")
    own = formats.loads(data, format="mine")
    assert [domain] == [entry.domain for entry in own.opset_import]
    raised, losses = formats.raise_model(own)
    assert [""] == [entry.domain for entry in raised.opset_import]
    assert ["mine"] == [loss.kind for loss in losses]
    assert raised == formats.loads(formats.dumps(own, "onnx"))
    assert own == formats.loads(formats.dumps(own, "mine"), format="mine")
    offered(entry("mine", mine))
    with pytest.raises(UnsupportedError, match="cannot be converted"):
        formats.dumps(own, "onnx")


def test_runtimes_of_other_packages(offered: Callable[..., None]) -> None:
    """ONNX is written for another package's runtime, which may know no releases, and no name of a data file."""

    class Mine(Runtime):
        title = "My runtime"
        data_alignment = 64

        def runnable(self, model: Model, exact: bool) -> Runnable:
            return Runnable(model, (Loss("mine", "", "rewritten for mine"),), ())

        def check_name(self, data_file: str) -> None:
            if data_file.endswith(".data"):
                raise OptionError("no .data")

    offered(entry("mine", changed(lookup.by_name("onnx"), name="mine", extensions=(".mine",), runtime=Mine())))
    model = formats.testing.linear(3)
    assert formats.loads(formats.dumps(model, "onnx", runtime="mine"))
    for options, words in (
        ({"runtime": "mine==1.0"}, "the known releases of mine are "),
        ({"runtime": "mine", "external_data": "w.data"}, "no .data"),
    ):
        with pytest.raises(OptionError, match=words):
            formats.dumps(model, "onnx", **options)


def test_a_codec_says_what_every_conversion_asks(offered: Callable[..., None], tmp_path: Path) -> None:
    """A format of another package says where its weights are, and gets the file that a model was read from."""
    originals = []

    def with_original(options: OnnxOptions, original: Source, codec: Codec) -> OnnxOptions:
        originals.append((original.nbytes, codec.name))
        return replace(options, size_threshold=0)

    linked = changed(
        lookup.by_name("onnx"),
        name="mine",
        extensions=(".mine",),
        with_original=with_original,
        data_files=lambda options: DataFileOptions("weights", in_archive=not options.external_data),
        in_one_file=lambda keywords: {**keywords, "external_data": False},
    )
    offered(entry("mine", linked))
    formats.save(formats.testing.linear(3), tmp_path / "m.onnx")
    formats.convert(tmp_path / "m.onnx", tmp_path / "m.mine", external_data="weights")
    assert [((tmp_path / "m.onnx").stat().st_size, "onnx")] == originals
    assert (tmp_path / "weights").stat().st_size  # the threshold that `with_original` chose
    assert formats.loads(formats.dumps(formats.load(tmp_path / "m.mine"), "mine"))
    with pytest.raises(OptionError, match="the weights stay in the archive"):
        formats.convert(tmp_path / "m.onnx", tmp_path / "n.mine", dtype="float16")
    with pytest.raises(OptionError, match="'weights', but RTen needs"):
        formats.convert(tmp_path / "m.onnx", tmp_path / "n.mine", runtime="rten")


def test_usual_models_ask_nobody(offered: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    """A model with ONNX's operators is converted without a search for installed packages, which takes time."""
    offered()

    def asked(group: str) -> None:
        raise AssertionError(group)

    monkeypatch.setattr("importlib.metadata.entry_points", asked)
    for target in ("onnx", "onnxz", "rten"):
        assert formats.loads(formats.dumps(formats.testing.linear(3), target))

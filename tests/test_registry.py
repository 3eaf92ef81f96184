"""Facts about the choice of a codec: by name, by extension for writing, by content first for reading."""

from __future__ import annotations

from pathlib import Path

import pytest

from formats import registry
from formats.errors import UnknownFormatError
from formats.registry import Codec, Match


def codec(name: str, match: Match) -> Codec:
    """A codec that thinks of every file the same."""
    return registry.by_name("onnx")._replace(name=name, extensions=(f".{name}",), sniff=lambda head, nbytes: match)


@pytest.fixture
def only(monkeypatch: pytest.MonkeyPatch) -> object:
    """Makes the given codecs the built-in ones, and others those of installed packages."""

    def replace(built_in: list[Codec], others: tuple[Codec, ...] = ()) -> None:
        monkeypatch.setattr(registry, "built_in", lambda: tuple(built_in))
        monkeypatch.setattr(registry, "codecs", lambda: (*built_in, *others))

    return replace


@pytest.mark.parametrize(("name", "extension"), [("onnx", ".onnx"), ("onnxz", ".onnxz"), ("rten", ".rten")])
def test_built_in_formats_are_found(name: str, extension: str) -> None:
    """Each format is found by its name, and by its extension in any case."""
    assert name == registry.by_name(name).name
    assert name == registry.for_writing(Path(f"a{extension}")).name
    assert name == registry.for_writing(Path(f"a.b{extension.upper()}")).name


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
    """A strong match decides, then the extension of a codec that could, then a weak match."""
    only([codec(name, match) for name, match in matches.items()])
    assert chosen == registry.for_reading(b"", 1, Path(path) if path else None).name


def test_nothing_is_recognised_that_no_codec_claims(only) -> None:  # type: ignore[no-untyped-def]
    """The extension alone does not make a file a model."""
    only([codec("a", Match.NONE)])
    with pytest.raises(UnknownFormatError, match="its bytes are none of"):
        registry.for_reading(b"text", 4, Path("x.a"))


def test_installed_codecs_come_after_the_built_in_ones(only) -> None:  # type: ignore[no-untyped-def]
    """A codec of another package is used for what no built-in one is sure of, by name, extension and content."""
    only([codec("a", Match.WEAK)], (codec("b", Match.STRONG), codec("a", Match.STRONG)))
    assert "b" == registry.by_name("b").name
    assert "b" == registry.for_writing(Path("x.b")).name
    assert "b" == registry.for_reading(b"", 1, Path("x.a")).name
    assert Match.WEAK is registry.by_name("a").sniff(b"", 1)

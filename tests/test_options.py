"""Tests of options: each one alone, and with each other one, works in each format, or is an error that says why not."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import onnx
import pytest

import formats
from formats.cli.command_line import flags_of
from formats.cli.verbs import VERBS
from formats.codecs import lookup
from formats.codecs.contract import ReadOptions
from formats.errors import OptionError
from formats.options import OptionRow, bad_value, checked, names_of, option_rows
from formats.tensordata.engine import EngineOptions
from formats.verbs.choices import ConversionOptions, MetadataOptions, RaisingOptions, RuntimeOptions

TARGETS = tuple(dict.fromkeys(codec.options for codec in lookup.built_in()))
CLASSES = (ConversionOptions, MetadataOptions, RaisingOptions, RuntimeOptions, ReadOptions, EngineOptions, *TARGETS)
ROWS = [pytest.param(each, row, id=f"{each.__name__}.{row.name}") for each in CLASSES for row in option_rows(each)]
KEY = formats.Key.of("secret words")
GOOD: dict[str, list[Any]] = {  # valid values of what is no switch
    "key": [KEY, "secret words", b"secret words"],
    "external_data": [True, False, "w.data", "w.safetensors"],
    "data_names": ["transformers.js"],
    "opset": [17, {"": 17}, {"ai.onnx.ml": 3}],
    "rten_version": [1, 2],
    "encryption": [1, 2, 3],
    "max_external_file_size": [0, 4096, "500M", "1kb", "5GiB", "1.5 GB"],
    "alignment": [1, 64, "4K"],
    "size_threshold": [0, 1024, "1MB", "1.5K"],
    "runtime": ["rten", "rten==0.27", "onnxruntime", "onnxruntime==1.18", "onnxruntime==1.18.1"],
    "allow": ["range", ["range", "metadata"], ("dtype",)],
    "metadata": [{}, {"license": "MIT"}],
    "storage_options": [{}, {"anon": True}, {"s3": {"key": "k"}}],
}
BAD: dict[str, list[Any]] = {  # besides an object of no kind
    "opset": [0, True, "17", {}, {"ai.onnx.ml": 0}, {3: 3}],
    "from_format": ["", "pickle", 3],
    "pin": ["x=int64", {"x": 1}, {"x": "int65"}, [("x", "int64")]],
    "key": ["", b"", 5, ["secret words"]],
    "allow_encryption": [0, 2, "1", True],
    "runtime": ["", "onnx", 3, "rten==", "rten==0.1", "onnxruntime==99", "onnxruntime=1.18", "rten==0.27.x"],
    "max_depth": [0, 251, 1 << 40, "9", 1.5, True],
    "external_data": [1, "", "../w", "sub/w", "/w", ".", b"w"],
    "metadata": ["MIT", [("license", "MIT")], {"license": 1}],
    "max_external_file_size": [-1, "500X", "-5", 1.5, True, "٣", "1.5", "5 apples"],
    "alignment": [0, -64, "0", "x", 1.5],
    "size_threshold": [-1, "1,5K", None],
    "storage_options": ["anon=true", [("anon", True)], {1: 2}],
    "checksum": [1, 0, "True", "", []],
}
ANYTHING = {"progress", "source_hash"}
# Options about the storage of weights outside of an .onnx file.
OUTSIDE = ("size_threshold", "alignment", "max_external_file_size", "one_file_per_tensor", "checksum", "data_names")


def good(row: OptionRow) -> list[Any]:
    """Return valid values of an option."""
    return GOOD.get(row.name, [True, False])


def needed(options: type) -> dict[str, Any]:
    """Return the required arguments of a class."""
    return {row.name: good(row)[0] for row in option_rows(options) if row.required}


@pytest.mark.parametrize("name", GOOD)
def test_possible_values_are_taken(name: str) -> None:
    """Every option accepts its values, and sizes and keys are passed on as numbers of bytes and as keys."""
    options, row = next(each.values for each in ROWS if each.values[1].name == name)
    for value in GOOD[name]:
        found = getattr(options(**{name: value}), name)
        assert isinstance(found, int) or row.kind.metavar != "SIZE"
        assert found == KEY or name != "key"


@pytest.mark.parametrize(("options", "row"), ROWS)
def test_other_values_are_refused(options: type, row: OptionRow, tmp_path: Path) -> None:
    """Every option refuses other values before anything is read, with an error that names it and shows no key."""
    codec = next((codec for codec in lookup.built_in() if codec.options is options), lookup.built_in()[0])
    for value in () if row.name in ANYTHING else (object(), *BAD.get(row.name, [])):
        with pytest.raises(OptionError) as caught:
            options(**{row.name: value})
        message = str(caught.value)
        assert f"`{row.name}`" in message or "no format is called" in message or "no runtime is called" in message
        assert row.name != "key" or "secret words" not in message
        with pytest.raises(OptionError):
            formats.convert(
                tmp_path / "missing.onnx", tmp_path / f"a{codec.extensions[0]}", **{**needed(options), row.name: value}
            )
    assert [] == [*tmp_path.iterdir()]


# Numbers without a bound, each for a reason.
UNBOUNDED = {
    "opset": "the rows of operator sets say which there are",
    "params": "modules are no deeper than their names",
    "limit": "a list ends by itself",
    "tensors": "a list ends by itself",
}


@pytest.mark.parametrize("number", [10**6, 10**18, -1])
def test_numbers_are_bounded(number: int) -> None:
    """A number that no machine could work with is refused at once, in every verb; none is negative."""
    for verb in VERBS:
        for row, flag in flags_of(group.options for group in verb.groups(False)).values():
            if flag.metavar not in ("N", "[DEPTH]", "N|PATTERN") or (number > 0 and row.name in UNBOUNDED):
                continue
            with pytest.raises(OptionError, match=f"`{row.name}` is '?{number}'?, but must be"):
                try:
                    checked(row, flag.from_text(str(number)))
                except ValueError:
                    raise bad_value(row.name, row.kind, number) from None


@pytest.mark.parametrize("codec", lookup.built_in(), ids=lambda codec: codec.name)
def test_options_are_of_the_format_or_refused(codec: Any, tiny_model: Path, tmp_path: Path) -> None:
    """Each option is used by a format, or an error names it."""
    heeded = names_of(codec.options) | names_of(EngineOptions) | names_of(ReadOptions)
    for each in TARGETS:
        for row in option_rows(each):
            if row.name in heeded:
                continue
            with pytest.raises(OptionError, match=f"`{row.name}` cannot be used for {codec.title}"):
                formats.convert(
                    tiny_model,
                    tmp_path / f"a{codec.extensions[0]}",
                    **needed(codec.options),
                    **{row.name: good(row)[0]},
                )
    assert [tiny_model] == [*tmp_path.iterdir()]


@pytest.mark.sample(3)
@pytest.mark.parametrize("codec", lookup.built_in(), ids=lambda codec: codec.name)
def test_pairs_of_options_work_or_say_why_not(codec: Any, tiny_model: Path, tmp_path: Path) -> None:
    """Every pair of options of a format makes a file with the whole model, or is an error that names both."""
    out = tmp_path / f"a{codec.extensions[0]}"
    model, archive = formats.load(tiny_model), tmp_path / "tiny.onnxz"
    formats.save(model, archive)
    with_data = tmp_path / "data.onnx"
    formats.save(model, with_data, external_data=True)
    reading = {"key": KEY, "allow_encryption": 1} if codec.encrypted else {}
    rows = [row for row in option_rows(codec.options) if row.name != "source_hash" and not row.required]
    choices = [[(row.name, value) for value in good(row)] for row in rows]
    for first, second in itertools.combinations(choices, 2):
        for one, two in itertools.product(first, second):
            given = {**needed(codec.options), **dict([one, two])}
            if codec.name in ("textproto", "json") and given.get("external_data"):
                continue
            source = archive if given.get("link") else with_data if given.get("same_data") else tiny_model
            try:
                formats.convert(source, out, overwrite=True, **given)
            except OptionError as error:
                assert f"`{one[0]}" in str(error), (given, error)
                assert f"`{two[0]}" in str(error), (given, error)
                continue
            found = formats.load(out, **reading)
            if codec.domain is None:
                assert model.graph.initializer[0].numpy().tobytes() == found.graph.initializer[0].numpy().tobytes()


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_is_said_of_data_files_asks_for_them(name: str, tiny_model: Path, tmp_path: Path) -> None:
    """An option about data files implies external data, and is refused if weights must stay in the model."""
    values = {"max_external_file_size": "1M", "alignment": 64, "size_threshold": 1024, "data_names": "transformers.js"}
    value: Any = values.get(name, True)
    report = formats.convert(tiny_model, tmp_path / "a.onnx", **{name: value})
    assert 2 == len(report.files)
    tensor = onnx.load(tmp_path / "a.onnx", load_external_data=False).graph.initializer[0]
    assert onnx.TensorProto.EXTERNAL == tensor.data_location
    with pytest.raises(OptionError, match=f"`{name}` and `external_data=False` exclude each other"):
        formats.convert(tiny_model, tmp_path / "b.onnx", external_data=False, **{name: value})
    unsaid = {"max_external_file_size": 0, "one_file_per_tensor": False, "checksum": False}
    if name in unsaid:
        assert 1 == len(formats.convert(tiny_model, tmp_path / "c.onnx", **{name: unsaid[name]}).files)


def test_what_needs_another_source_is_refused(tiny_model: Path, tmp_path: Path) -> None:
    """An option that needs another kind of source is refused, not ignored."""
    formats.convert(tiny_model, tmp_path / "a.onnxz")
    formats.convert(tiny_model, tmp_path / "a.rten")
    for source, target, given in (
        ("a.onnxz", "b.rten", {"onnx_hash": True}),
        ("a.rten", "b.rten", {"onnx_hash": True}),
        ("a.rten", "b.rten", {"exact": True}),
        ("tiny.onnx", "b.onnx", {"pin": {"x": "int64"}}),
        ("tiny.onnx", "b.onnxc", {}),
    ):
        with pytest.raises(OptionError, match=f"`{next(iter(given), 'key')}`"):
            formats.convert(tmp_path / source, tmp_path / target, **given)
        assert not (tmp_path / target).exists()
    with pytest.raises(OptionError, match="`overwrite` is for files"):
        formats.dumps(formats.load(tiny_model), "onnx", overwrite=True)
    with pytest.raises(OptionError, match="`original` has an effect only with `data=True`"):
        formats.verify(tiny_model, original=tiny_model)


def test_misspelt_keywords_are_told_with_the_right_one(tiny_model: Path) -> None:
    """An unknown keyword is an error that suggests a similar one."""
    with pytest.raises(OptionError, match="no option `max_dept`; did you mean `max_depth`"):
        formats.load(tiny_model, max_dept=3)
    with pytest.raises(
        OptionError, match="no option `zzz`; there are `allow_encryption`, `dim`, `format`, `hard_links`, `key`"
    ):
        formats.inspect(tiny_model, zzz=3)


@pytest.mark.outer
def test_misspelt_keywords_are_type_errors(tmp_path: Path) -> None:
    """Mypy refuses keywords that are misspelt or have a value of another type, and accepts the right ones."""
    api = pytest.importorskip("mypy.api", reason="needs the package mypy")
    program = tmp_path / "program.py"
    right = [
        'formats.convert("a", "b", size_threshold="1K", threads=2, key="k", pin={"x": "int64"})',
        'formats.save(formats.load("a", max_depth=3, key=b"k"), "b", checksum=True, external_data="w")',
        'formats.inspect("a", hard_links=False)',
    ]
    wrong = [
        'formats.convert("a", "b", size_treshold=1)',
        'formats.convert("a", "b", threads="2")',
        'formats.save(formats.load("a"), "b", max_depth=3)',
        'formats.load("a", key=5)',
        'formats.verify("a", hard_link=True)',
    ]
    program.write_text("\n".join(["import formats", *right, *wrong]))
    said, _, _ = api.run([str(program), "--strict", "--no-incremental", "--cache-dir", str(tmp_path / "cache")])
    lines = sorted({int(line.split(":")[1]) for line in said.splitlines() if ": error:" in line})
    first = len(right) + 2
    assert [*range(first, first + len(wrong))] == lines, said

"""Tests of the verbs: their results, what they refuse, and what they leave unchanged."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import weakref
from functools import partial
from pathlib import Path
from typing import Any

import onnx
import pytest

import formats
from formats import onnxpb
from formats.codecs.contract import DEEPEST, MAX_DEPTH, Codec
from formats.errors import OptionError
from formats.ir.model import Attribute, Graph, Model, Node
from formats.tensordata.engine import EngineOptions
from formats.tensordata.file import File
from formats.tensordata.local.osio import LocalFile
from formats.verbs import convert
from tests import commands
from tests.changed_codecs import changed

FORMATS = ("onnx", "onnxz", "rten")


def files(folder: Path) -> dict[str, bytes]:
    """Return every file of a folder."""
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.is_file()}


@pytest.mark.parametrize("extension", FORMATS)
def test_what_is_written_is_read_again(tiny_model: Path, extension: str, tmp_path: Path) -> None:
    """`save` and `dumps` write the same bytes, from which `load` and `loads` read a model that stays equal."""
    paths = [tmp_path / f"{name}.{extension}" for name in ("first", "second")]
    formats.convert(tiny_model, paths[0])
    model = formats.load(paths[0])
    formats.save(model, paths[1])
    assert model == formats.load(paths[1])
    data = formats.dumps(model, extension)
    assert (bytes, paths[1].read_bytes()) == (type(data), data)
    assert data == formats.dumps(formats.loads(data), extension)


def test_onnx_comes_back_byte_for_byte(tiny_model: Path, tmp_path: Path) -> None:
    """Conversion from ONNX to the archive and back gives the bytes of the original, which was in canonical order."""
    formats.convert(tiny_model, tmp_path / "a.onnxz")
    formats.convert(tmp_path / "a.onnxz", tmp_path / "b.onnx", external_data=False)
    assert tiny_model.read_bytes() == (tmp_path / "b.onnx").read_bytes()


@pytest.mark.parametrize("data_type", [bytes, bytearray, memoryview])
def test_loads_takes_any_buffer(tiny_model: Path, data_type: Any) -> None:
    """`loads` accepts bytes, bytearrays and memory views."""
    assert formats.load(tiny_model) == formats.loads(data_type(tiny_model.read_bytes()))


def test_dumps_takes_external_weights_in(tiny_model: Path, tmp_path: Path) -> None:
    """A model with external data is dumped with its weights inside."""
    formats.convert(tiny_model, tmp_path / "a.onnx", external_data=True)
    assert tiny_model.read_bytes() == formats.dumps(formats.load(tmp_path / "a.onnx"), "onnx")


def test_dumps_refuses_what_takes_two_files(tiny_model: Path) -> None:
    """Options that put weights into another file are refused by `dumps`."""
    with pytest.raises(formats.EncodeError, match="2 files"):
        formats.dumps(formats.load(tiny_model), "onnx", external_data=True)


def test_save_leaves_the_model_as_it_was(tiny_model: Path, tmp_path: Path) -> None:
    """Saving in any format, with external weights or not, does not change the model."""
    model, original = formats.load(tiny_model), formats.load(tiny_model)
    for name, options in (("a.onnx", {"external_data": True}), ("a.onnxz", {}), ("a.rten", {})):
        formats.save(model, tmp_path / name, **options)
        assert original == model


def test_save_makes_a_model_from_scratch(tmp_path: Path) -> None:
    """A model that was never in a file can be saved, and `onnx` reads it."""
    model = Model(ir_version=8, opset_import=[formats.OperatorSetId(domain="", version=17)], graph=Graph(name="g"))
    report = formats.save(model, tmp_path / "a.onnx")
    assert "g" == onnx.load(tmp_path / "a.onnx").graph.name
    assert report.source is None
    assert report.source_format is None


def test_report_says_what_was_written(tiny_model: Path, tmp_path: Path) -> None:
    """The report has the paths, the formats, every file with its size, and a time."""
    destination = tmp_path / "a.onnx"
    report = formats.convert(tiny_model, destination, external_data="w.data")
    assert (tiny_model, destination, "onnx", "onnx") == (
        report.source,
        report.destination,
        report.source_format,
        report.target_format,
    )
    sizes = [(path, path.stat().st_size) for path in (tmp_path / "w.data", destination)]
    assert sizes == [tuple(file) for file in report.files]
    assert sum(size for _, size in sizes) == report.nbytes
    assert 0 < report.seconds < 60


def test_report_can_be_json(tiny_model: Path, tmp_path: Path) -> None:
    """`to_json` returns values that `json` can write, including losses, with the names of the report."""
    report = formats.convert(tiny_model, tmp_path / "a.rten")
    data = json.loads(json.dumps(report.to_json()))
    names = {field.name for field in dataclasses.fields(report)} - {"is_translated"}  # the verdict says it
    assert names | {"nbytes", "verdict"} == data.keys()
    assert [(*loss[:4], loss.matters) for loss in report.losses] == [tuple(loss.values()) for loss in data["losses"]]


def test_formats_can_be_named(tiny_model: Path, tmp_path: Path) -> None:
    """A file without an extension is written in the named format and recognised by its content."""
    path = tmp_path / "model"
    assert "onnxz" == formats.convert(tiny_model, path, to_format="onnxz").target_format
    assert "onnxz" == formats.convert(path, tmp_path / "a.onnx").source_format
    assert formats.load(tiny_model) == formats.load(tiny_model, format="onnx")


@pytest.mark.parametrize(
    ("extension", "options", "message"),
    [
        ("onnx", {"alignement": 64}, "there is no option `alignement` for ONNX protobuf; did you mean `alignment`?"),
        ("rten", {"external_data": True, "alignment": 1}, "`alignment` and `external_data` cannot be used for RTen"),
        ("onnxz", {"exact": True}, "`exact` cannot be used for ONNX archive"),
    ],
)
def test_option_of_another_format_is_a_type_error(
    tiny_model: Path, tmp_path: Path, extension: str, options: dict[str, Any], message: str
) -> None:
    """An option that the target lacks is a TypeError that names the format, or a similar option if no format has it."""
    with pytest.raises(TypeError, match=re.escape(message)) as caught:
        formats.convert(tiny_model, tmp_path / f"a.{extension}", **options)
    assert isinstance(caught.value, OptionError)
    with pytest.raises(TypeError, match=re.escape(message)):
        formats.save(Model(), tmp_path / f"a.{extension}", **options)


def test_options_are_checked_before_the_model_is_read(tmp_path: Path) -> None:
    """A wrong option is reported before the source is read."""
    with pytest.raises(TypeError, match="no option `nonsense` for ONNX protobuf; there are `alignment`, "):
        formats.convert(tmp_path / "missing.onnx", tmp_path / "a.onnx", nonsense=1)


def test_engine_options_are_passed_on(tiny_model: Path, tmp_path: Path) -> None:
    """Options of the engine are options of every verb that writes; for example, progress is reported to the end."""
    seen: list[tuple[int, int]] = []
    formats.convert(tiny_model, tmp_path / "a.onnxz", progress=lambda *done: seen.append(done), threads=1)
    assert seen
    assert seen[-1][0] == seen[-1][1]
    assert "overwrite" in {field.name for field in dataclasses.fields(EngineOptions)}


def test_a_file_can_be_converted_onto_itself(tiny_model: Path) -> None:
    """With `overwrite`, a model may replace the file from which its weights are read."""
    before = onnx.load(tiny_model)
    with pytest.raises(FileExistsError):
        formats.convert(tiny_model, tiny_model, external_data=True)
    formats.convert(tiny_model, tiny_model, external_data=True, overwrite=True)
    assert tiny_model.stat().st_size < 1000
    formats.convert(tiny_model, tiny_model, external_data=False, overwrite=True)
    assert before == onnx.load(tiny_model)


def test_a_data_file_can_be_replaced_by_one_from_itself(tiny_model: Path, tmp_path: Path) -> None:
    """A model can be realigned in place: its data file is read while it is replaced."""
    path = tmp_path / "a.onnx"
    formats.convert(tiny_model, path, external_data=True)
    before = onnx.load(path)
    formats.convert(path, path, alignment=4096, overwrite=True)
    after = onnx.load(path)
    assert before.graph.initializer[0].raw_data == after.graph.initializer[0].raw_data


def test_model_outlives_the_replacement_of_its_file(tiny_model: Path) -> None:
    """A loaded model keeps its weights when its file is replaced by another one."""
    model = formats.load(tiny_model)
    assert model.graph is not None
    formats.save(model, tiny_model, external_data=True, overwrite=True)
    assert 1023.0 == model.graph.initializer[0].numpy().max()


def test_strict_refuses_losses_before_anything_is_written(tiny_model: Path, tmp_path: Path) -> None:
    """With `strict`, a loss that matters is an error that names it, and no file appears."""
    model = formats.load(tiny_model)
    assert model.graph is not None
    model.graph.input[0].type.tensor_type.elem_type = 11  # type: ignore[union-attr]
    with pytest.raises(formats.UnsupportedError, match=r"`strict` refuses these losses: .*graph.input\[0\]: DOUBLE"):
        formats.save(model, tmp_path / "a.rten", strict=True)
    assert ["tiny.onnx"] == [*files(tmp_path)]
    assert [True, True] == [loss.matters for loss in formats.save(model, tmp_path / "a.rten").losses]


def test_strict_lets_pass_the_loss_of_documentation(tiny_model: Path, tmp_path: Path) -> None:
    """A loss that changes neither results nor the interface of a model is reported, and not refused."""
    model = formats.load(tiny_model)
    assert model.graph is not None
    model.producer_name, model.graph.doc_string = "somebody", "about cats"
    losses = formats.save(model, tmp_path / "a.rten", strict=True).losses
    assert [("producer", False), ("doc_string", False)] == [(loss.kind, loss.matters) for loss in losses]


def test_strict_lets_pass_what_is_allowed(tiny_model: Path, tmp_path: Path) -> None:
    """With `allow`, `strict` refuses only losses of other kinds, and its error names the kinds of those."""
    model = formats.load(tiny_model)
    assert model.graph is not None
    model.graph.input[0].type.tensor_type.elem_type = 11  # type: ignore[union-attr]
    model.metadata_props.append(formats.StringStringEntry("labels", "a,b"))
    with pytest.raises(formats.UnsupportedError, match=r"`allow=precision` `allow=interface_type` `allow=metadata`$"):
        formats.save(model, tmp_path / "a.rten", strict=True)
    with pytest.raises(formats.UnsupportedError, match=r"metadata.*; they pass with `allow=metadata`$"):
        formats.save(model, tmp_path / "a.rten", allow=("interface_type", "precision"))  # implies `strict`
    assert ["tiny.onnx"] == [*files(tmp_path)]
    every = ["interface_type", "precision", "metadata"]
    assert formats.save(model, tmp_path / "a.rten", strict=True, allow=every).losses
    formats.save(model, tmp_path / "b.onnx")
    typed = [word for kind in every for word in ("--allow", kind)]
    arguments = ("convert", tmp_path / "b.onnx", tmp_path / "b.rten", "--strict")
    done = commands.run("formats", *arguments)
    assert done.exit_code == 1
    assert "they pass with --allow precision --allow interface_type --allow metadata" in done.stderr
    assert commands.run("formats", *arguments, *typed).exit_code == 0
    jobs = [(tmp_path / "b.onnx", tmp_path / f"{number}.rten") for number in range(2)]
    assert all(result.ok for result in formats.convert_many(jobs, strict=True, allow=every, processes=1))


@pytest.mark.parametrize(
    ("keywords", "words"),
    [
        ({"strict": True, "allow": ["rnge"]}, "which is no kind of loss; did you mean range"),
        ({"strict": True, "allow": ["qqq"]}, r"; there are assumed_type, .* and \d+ more"),
        ({"strict": True, "allow": []}, "must be kinds of losses"),
    ],
)
def test_what_is_allowed_is_checked_first(keywords: dict[str, Any], words: str, tmp_path: Path) -> None:
    """A kind that does not exist is refused before anything is read."""
    with pytest.raises(formats.OptionError, match=words):
        formats.convert(tmp_path / "missing.onnx", tmp_path / "a.rten", **keywords)


def test_strict_lets_pass_what_loses_nothing(tiny_model: Path, tmp_path: Path) -> None:
    """With `strict`, a conversion without a loss succeeds; what a .rten file lacks is no loss of reading it."""
    assert () == formats.convert(tiny_model, tmp_path / "a.onnxz", strict=True).losses
    assert () == formats.convert(tiny_model, tmp_path / "a.rten", strict=True).losses
    assert formats.convert(tmp_path / "a.rten", tmp_path / "b.onnx", strict=True).losses


def test_long_lists_of_losses_are_cut(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error of `strict` names ten losses and says how many more there are."""
    from formats.codecs import lookup
    from formats.verbs import convert

    losses = tuple(formats.Loss("kind", f"graph.node[{index}]", "is lost") for index in range(25))
    codec = lookup.by_name("onnx")

    def plan(*arguments: Any) -> Any:
        return codec.plan(*arguments)._replace(losses=losses)

    monkeypatch.setattr(convert, "target_of", lambda *_: changed(codec, plan=plan))
    with pytest.raises(
        formats.UnsupportedError, match=r"node\[9\]: is lost; and 15 more; they pass with `allow=kind`$"
    ):
        formats.convert(tiny_model, tmp_path / "a.onnx", strict=True)


@pytest.mark.parametrize("extension", ["onnx", "onnxz"])
def test_rten_operators_become_those_of_onnx(tiny_model: Path, tmp_path: Path, extension: str) -> None:
    """Every verb writes a model in RTen's own operators to other formats in ONNX's operators."""
    source, destination = tmp_path / "a.rten", tmp_path / f"b.{extension}"
    formats.convert(tiny_model, source)
    report = formats.convert(source, destination)
    assert {"forgotten"} == {loss.kind for loss in report.losses}
    written = formats.load(destination)
    assert {None} == {node.domain for node in written.graph.node}  # type: ignore[union-attr]
    raised, losses = formats.raise_model(formats.load(source))
    assert report.losses == losses
    assert raised.graph.node == written.graph.node  # type: ignore[union-attr]
    assert formats.dumps(formats.load(source), extension) == formats.dumps(raised, extension)
    formats.save(formats.load(source), tmp_path / f"c.{extension}")
    assert destination.read_bytes() == (tmp_path / f"c.{extension}").read_bytes()


def test_types_can_be_pinned_of_models_from_rten_only(tiny_model: Path, tmp_path: Path) -> None:
    """Inputs and outputs get the requested types from .rten to another format; others have types, or RTen's."""
    formats.convert(tiny_model, tmp_path / "a.rten")
    formats.convert(tmp_path / "a.rten", tmp_path / "b.onnx", pin={"x": "float16", "y": "DOUBLE"})
    graph = onnx.load(tmp_path / "b.onnx").graph
    assert [10, 11] == [value.type.tensor_type.elem_type for value in (*graph.input, *graph.output)]
    for source, destination in (("tiny.onnx", "c.onnx"), ("tiny.onnx", "c.rten"), ("a.rten", "c.rten")):
        with pytest.raises(OptionError, match="`pin` is only for models"):
            formats.convert(tmp_path / source, tmp_path / destination, pin={"x": "int64"})
    with pytest.raises(formats.EncodeError, match="no input or output is called 'z'; the names are"):
        formats.convert(tmp_path / "a.rten", tmp_path / "c.onnx", pin={"z": "int64"})


def test_operators_of_a_codec_that_cannot_raise_are_refused(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a format cannot convert its own operators to ONNX's, all other formats refuse such a model."""
    from formats.codecs import lookup

    codec = changed(rten := lookup.by_name("rten"), raise_model=partial(Codec.raise_model, rten))
    monkeypatch.setattr(lookup, "built_in", lambda: (codec,))
    model = formats.load(tiny_model)
    model.opset_import[0].domain = "rten"
    with pytest.raises(formats.UnsupportedError, match="the model has operators of RTen"):
        formats.raise_model(model)


@pytest.mark.parametrize(
    ("source", "is_large", "options", "is_noted"),
    [
        ("digits.onnx", False, {}, True),
        ("digits.onnx", False, {"onnx_hash": False}, False),
        ("digits.onnx", True, {}, False),  # it would take longer than the rest of the conversion
        ("digits.onnx", True, {"onnx_hash": True}, True),
        ("a.onnxz", False, {}, False),  # its hash is not that of an ONNX file
    ],
)
def test_rten_notes_the_hash_of_the_onnx_file(
    source: str, is_large: bool, options: Any, is_noted: bool, digits: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A .rten file contains the SHA-256 of the .onnx file that it was made from, of a large one only on request."""
    formats.convert(digits, digits.with_name("a.onnxz"))
    if is_large:
        monkeypatch.setattr("formats.rten.model.HASHED_UNASKED_BYTES", digits.stat().st_size)
    formats.convert(digits.with_name(source), digits.with_name("a.rten"), **options)
    texts = {entry.key: entry.value for entry in formats.load(digits.with_name("a.rten")).metadata_props}
    digest = hashlib.sha256(digits.read_bytes()).hexdigest()
    assert texts.get("onnx_hash") == (digest if is_noted else None)


def test_errors_say_which_file_they_are_about(tiny_model: Path, tmp_path: Path) -> None:
    """An error of reading or of planning has the path of the source."""
    cut = tmp_path / "cut.onnx"
    cut.write_bytes(tiny_model.read_bytes()[:-100])
    for destination in ("a.onnx", "a.rten"):
        with pytest.raises(formats.TruncatedError) as caught:
            formats.convert(cut, tmp_path / destination)
        assert cut == caught.value.path
        assert str(caught.value).startswith(str(cut))


@pytest.mark.parametrize("verb", [formats.load, formats.inspect])
def test_missing_files_and_directories_are_os_errors(verb: Any, tmp_path: Path) -> None:
    """A missing file or a folder is an error of the system."""
    with pytest.raises(FileNotFoundError):
        verb(tmp_path / "missing.onnx")
    with pytest.raises(IsADirectoryError):
        verb(tmp_path)


def nested(depth: int) -> Model:
    """Return a model whose deepest message is nested in `depth` others."""
    message: Any = (Graph(name="g"), Node(op_type="N"), Attribute(name="a", type=2, i=1))[(depth - 1) % 3]
    for _ in range(depth - 1):
        if isinstance(message, Graph):
            message = Attribute(name="g", type=5, g=message)
        elif isinstance(message, Attribute):
            message = Node(op_type="N", attribute=[message])
        else:
            message = Graph(name="g", node=[message])
    return Model(ir_version=10, graph=message)


@pytest.mark.sample(5)
@pytest.mark.parametrize("extension", ["onnx", "onnxz", "textproto", "json"])
def test_depth_of_messages_is_limited(extension: str, tmp_path: Path) -> None:
    """Models up to the limit are read, deeper ones are not; the limit can be set, up to what the stack allows."""
    for depth in (7, MAX_DEPTH, DEEPEST):
        model, path = nested(depth), tmp_path / f"{depth}.{extension}"
        formats.save(model, path)
        assert model == formats.load(path, max_depth=depth)
        assert model == formats.loads(path.read_bytes(), max_depth=DEEPEST)
        formats.convert(path, tmp_path / f"{depth} again.onnx", max_depth=depth)
        assert formats.dumps(model, "onnx") == (tmp_path / f"{depth} again.onnx").read_bytes()
        with pytest.raises(formats.LimitError, match=f"more than {depth - 1} deep; `max_depth` allows up to 250"):
            formats.dumps(formats.load(path, max_depth=depth - 1), "json")


@pytest.mark.parametrize("extension", ["onnx", "textproto", "json"])
def test_depth_has_a_default(extension: str, tmp_path: Path) -> None:
    """By default, readers accept 100 nested messages; the drop-in functions have this option, too."""
    path, model = tmp_path / f"a.{extension}", nested(MAX_DEPTH + 1)
    formats.save(model, path)
    for read in (formats.load, lambda *args, **options: onnxpb.unwrap(onnxpb.load(*args, **options))):
        with pytest.raises(formats.LimitError):
            formats.dumps(read(path), "json")
        assert model == read(path, max_depth=MAX_DEPTH + 1)


@pytest.mark.parametrize("depth", [0, -1, DEEPEST + 1, 1 << 40])
def test_impossible_depths_are_refused(depth: int, tiny_model: Path, tmp_path: Path) -> None:
    """A limit that is too large for the stack, or too small for any model, is refused at once."""
    for read in (formats.load, onnxpb.load):
        with pytest.raises(ValueError, match=f"`max_depth` is {depth}, but must be a whole number from 1 to {DEEPEST}"):
            read(tiny_model, max_depth=depth)
    with pytest.raises(OptionError, match="max_depth"):
        formats.convert(tiny_model, tmp_path / "a.onnxz", max_depth=depth)


def test_options_of_reading_are_not_those_of_writing(tiny_model: Path, tmp_path: Path) -> None:
    """Options of reading are refused if nothing is read."""
    for options in ({"max_depth": 5}, {"hard_links": False}, {"key": formats.Key.of("k")}):
        with pytest.raises(OptionError):
            formats.save(formats.load(tiny_model), tmp_path / "a.onnx", **options)


def test_loading_reads_no_weight(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Loading a model reads only its structure; weights are read when they are needed."""
    read: list[int] = []
    pread_into = LocalFile.pread_into

    def counted(self: File, offset: int, buffer: memoryview) -> None:
        read.append(len(buffer))
        pread_into(self, offset, buffer)

    monkeypatch.setattr(LocalFile, "pread_into", counted)
    model = formats.load(tiny_model)
    reading = len(read)
    assert model.graph is not None
    assert 4096 == model.graph.initializer[0].source().nbytes
    assert reading == len(read)


@pytest.mark.parametrize(("first", "second"), [("onnx", "onnx"), ("onnx", "rten"), ("rten", "onnx")])
def test_a_model_is_freed_before_it_is_written(
    tiny_model: Path, first: str, second: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When files are written, only the plan is left of a model, which nobody then searches for garbage."""
    formats.convert(tiny_model, tmp_path / f"given.{first}")
    models, left = [], []
    read, execute = convert.open_model, convert.check_and_execute

    def open_model(*arguments: Any, **options: Any) -> Any:
        opened = read(*arguments, **options)
        models.append(weakref.ref(opened.model))
        return opened

    def check_and_execute(*arguments: Any) -> Any:
        left.extend(model() for model in models)
        return execute(*arguments)

    monkeypatch.setattr(convert, "open_model", open_model)
    monkeypatch.setattr(convert, "check_and_execute", check_and_execute)
    formats.convert(tmp_path / f"given.{first}", tmp_path / f"made.{second}")
    assert [None] == left


@pytest.mark.sample(3)
def test_shared_models_become_rten(shared_model: Path, tmp_path: Path) -> None:
    """A real exporter's model becomes a .rten file that is read and written again as the same bytes."""
    formats.convert(shared_model, tmp_path / "a.rten")
    formats.convert(tmp_path / "a.rten", tmp_path / "b.rten", onnx_hash=False)
    assert (tmp_path / "a.rten").read_bytes() == (tmp_path / "b.rten").read_bytes()

"""Input that is not a model: each kind was made by its own program, and is recognised; a model of ours never is."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import pickle
import shutil
import subprocess
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import formats
from formats import onnxpb
from formats.codecs import foreign
from formats.errors import DecodeError, ExternalDataError, MissingPackageError, TruncatedError, UnknownFormatError
from formats.extras import needed
from formats.tensordata.file import File
from formats.tensordata.sources.source import Literal
from tests import corpus

GOLDEN = Path(__file__).with_name("foreign") / "golden"
LFS = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize 102530333\n" % (b"4d7a" * 16)
ARRAY = np.arange(6, dtype=np.float32)


def safetensors(path: Path) -> None:
    """Write a file of safetensors."""
    from safetensors.numpy import save_file

    save_file({"w": ARRAY}, path)


def gguf(path: Path) -> None:
    """Write a file of llama.cpp."""
    from gguf import GGUFWriter

    writer = GGUFWriter(path, "llama")
    writer.add_tensor("w", ARRAY)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def hdf5(path: Path) -> None:
    """Write a file as Keras 2 did."""
    import h5py

    with h5py.File(path, "w") as file:
        file["model_weights/w"] = ARRAY


def npz(path: Path) -> None:
    """Write an archive of arrays."""
    with path.open("wb") as file:
        np.savez(file, w=ARRAY, x=ARRAY)


def npz_compressed(path: Path) -> None:
    """Write an archive of compressed arrays."""
    with path.open("wb") as file:
        np.savez_compressed(file, w=ARRAY)


def npy(path: Path) -> None:
    """Write an array."""
    with path.open("wb") as file:
        np.save(file, ARRAY)


def zip_of_texts(path: Path) -> None:
    """Write a zip file without a model."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "text")


def zipped(path: Path) -> None:
    """Write an .onnx file in a zip archive."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("readme.txt", "A model")
        archive.writestr("model.onnx", onnx.ModelProto(ir_version=8).SerializeToString())


def tarred(path: Path, mode: str = "w") -> None:
    """Write a folder in a tar archive."""
    with tarfile.open(path, mode) as archive:
        entry = tarfile.TarInfo("model/model.onnx")
        archive.addfile(entry, io.BytesIO())


def exported_program(path: Path) -> None:
    """Write the first entries of `torch.export.save`, as its documentation names them."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("model/archive_format", "pt2")
        archive.writestr("model/data/weights/weight_0", b"")


def content(data: bytes) -> Callable[[Path], object]:
    """Return a function that writes these bytes."""
    return lambda path: path.write_bytes(data)


def golden(name: str) -> Callable[[Path], object]:
    """Return a function that copies a file made by `foreign/make_golden.py`."""
    return lambda path: shutil.copy(GOLDEN / name, path)


SETTINGS = {"architectures": ["BertModel"], "model_type": "bert"}
CASES: dict[str, tuple[Callable[[Path], object], str, str]] = {
    "empty": (content(b""), "an empty file", "again"),
    "Git LFS": (content(LFS), "a Git LFS pointer", "`git lfs pull`"),
    "DVC": (content(b"outs:\n- md5: a304afb96060aad90176268345e10355\n  path: model.onnx\n"), "DVC", "`dvc pull`"),
    "HTML": (content(b'\n<!DOCTYPE html>\n<html lang="en"><head></head></html>'), "an HTML page", "`resolve`"),
    "HTML with a comment": (content(b"\xef\xbb\xbf<!-- x -->\n<HTML>"), "an HTML page", "download"),
    "S3": (content(b'<?xml version="1.0"?>\n<Error><Code>AccessDenied</Code></Error>'), "a file store", "says why"),
    "zeros": (content(bytes(5000)), "only zeros", "download it again"),
    "safetensors": (safetensors, "a safetensors file", "no graph"),
    "GGUF": (gguf, "a GGUF file", "no graph"),
    "TensorFlow Lite": (golden("model.tflite"), "a TensorFlow Lite model", "tf2onnx.convert --tflite"),
    "SavedModel": (golden("saved_model.pb"), "a TensorFlow SavedModel", "tf2onnx.convert --saved-model"),
    "frozen graph": (golden("frozen.pb"), "a graph of TensorFlow 1", "tf2onnx.convert --graphdef"),
    "Keras 3": (golden("model.keras"), "a Keras model", "format='onnx'"),
    "HDF5": (hdf5, "an HDF5 file", "format='onnx'"),
    "PyTorch": (golden("state.pt"), "a PyTorch file", "torch.onnx.export"),
    "TorchScript": (golden("script.pt"), "a PyTorch file", "torch.onnx.export"),
    "PyTorch before 1.6": (golden("legacy.pth"), "a PyTorch file from before", "torch.onnx.export"),
    "torch.export": (exported_program, "a program saved by torch.export", "torch.export.load"),
    "ExecuTorch": (content(b"\x1c\0\0\0ET12" + bytes(100)), "an ExecuTorch program", "the .onnx file"),
    "TensorRT": (content(b"ftrt" + bytes(100)), "a TensorRT engine", "the .onnx file"),
    "TensorRT 7": (content(b"ptrt" + bytes(100)), "a TensorRT engine", "the .onnx file"),
    "RKNN": (content(b"RKNN" + bytes(100)), "an RKNN model", "the .onnx file"),
    "ncnn": (content(b"7767517\n2 2\nInput x 0 1 x\n"), "an ncnn model", "the .onnx file"),
    "OpenVINO": (golden("model.xml"), "an OpenVINO model", "the .onnx file"),
    "Core ML network": (golden("network.mlmodel"), "a Core ML model", "the .onnx file"),
    "Core ML program": (golden("program.mlmodel"), "a Core ML model", "the .onnx file"),
    "npz": (npz, "an .npz file", "no graph"),
    "compressed npz": (npz_compressed, "an .npz file", "no graph"),
    "npy": (npy, "an array of numpy", "no graph"),
    "config.json": (
        content(json.dumps(SETTINGS, indent=2).encode()),
        "the settings of a Hugging Face model",
        "optimum-cli",
    ),
    "pickle": (content(pickle.dumps({"w": ARRAY})), "a Python pickle", "skl2onnx"),
    "old pickle": (content(pickle.dumps({"w": ARRAY}, protocol=2)), "a Python pickle", "skl2onnx"),
    "gzip": (content(gzip.compress(b"model")), "gzip", "`gunzip"),
    "bzip2": (content(bz2.compress(b"model")), "bzip2", "`bunzip2"),
    "xz": (content(lzma.compress(b"model")), "xz", "`unxz"),
    "Zstandard": (content(bytes.fromhex("28b52ffd04006900006d6f64656c0a1f3b5b")), "Zstandard", "`unzstd"),
    "LZ4": (content(bytes.fromhex("04224d186440a7060000806d6f64656c0a")), "LZ4", "`unlz4"),
    "7z": (content(b"7z\xbc\xaf\x27\x1c\0\4" + bytes(24)), "a 7z archive", "`7z x"),
    "RAR": (content(b"Rar!\x1a\x07\x01\x00" + bytes(24)), "a RAR archive", "unpack"),
    "tar": (tarred, "a tar archive", "`tar xf"),
    "tar.gz": (lambda path: tarred(path, "w:gz"), "gzip", "`tar xf"),
    "zip": (zipped, "a zip archive with a model", "`unzip"),
    "zip of texts": (zip_of_texts, "a zip file, but not an .onnxz archive", "unpack it"),
}

ALL = [pytest.param(case, marks=pytest.mark.outer) if CASES[case][0] in (gguf, hdf5) else case for case in CASES]


@pytest.mark.parametrize("extension", ["", ".onnx", ".onnxz", ".rten", ".json", ".textproto", ".bin"])
@pytest.mark.parametrize("case", ALL)
def test_foreign_files_are_named(tmp_path: Path, case: str, extension: str) -> None:
    """Whatever name a file of another kind has, the error says what it is, and what to do."""
    make, title, remedy = CASES[case]
    path = tmp_path / f"model{extension}"
    make(path)
    with pytest.raises(UnknownFormatError) as caught:
        formats.load(path)
    assert path == caught.value.path
    assert title in caught.value.message
    assert remedy in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize("case", ALL)
def test_foreign_bytes_are_named(tmp_path: Path, case: str) -> None:
    """Bytes in memory are recognised, too, even by a reader that was told that they are a model."""
    make, title, _ = CASES[case]
    make(tmp_path / "file")
    data = (tmp_path / "file").read_bytes()
    for name in (None, "onnx", "onnxz", "rten"):
        with pytest.raises(UnknownFormatError) as caught:
            formats.loads(data, format=name)
        assert title in caught.value.message


@pytest.mark.outer
def test_every_row_is_tested(tmp_path: Path) -> None:
    """Every row of the table has a test file, and each file is recognised by its own row."""
    found = set()
    for make, title, _ in CASES.values():
        make(tmp_path / "file")
        row = foreign.recognise(File.open(tmp_path / "file").span())
        assert row is not None
        assert title in row.title
        found.add(row.title)
    assert {row.title for row in foreign.FOREIGN_FORMATS} - found == {"the weights of an OpenVINO model"}


def test_weights_of_openvino(tmp_path: Path) -> None:
    """Bytes without a mark are the weights of OpenVINO if its graph is next to them, and otherwise unknown."""
    shutil.copy(GOLDEN / "model.xml", tmp_path / "model.xml")
    (tmp_path / "model.bin").write_bytes(b"\xff" * 100)
    with pytest.raises(UnknownFormatError, match="the weights of an OpenVINO model"):
        formats.load(tmp_path / "model.bin")
    (tmp_path / "model.xml").unlink()
    with pytest.raises(UnknownFormatError, match="it is not a known kind of file"):
        formats.load(tmp_path / "model.bin")


@pytest.mark.outer
def test_no_model_is_mistaken(tmp_path: Path) -> None:
    """No model of the `onnx` package is recognised as foreign, in any format in which we write it."""
    data = [(name, path.read_bytes()) for name, path in corpus.backend_files()]
    data += [(case.id, case.model) for case in corpus.backend_cases()[::20]]
    mistaken = []
    for name, model in data:
        if foreign.recognise(Literal(model)):
            mistaken.append(name)
    small = [model for _, model in data[::25] if len(model) < 100_000]
    for model in small:
        for target in ("onnxz", "rten", "textproto", "json"):
            try:
                written = formats.dumps(formats.loads(model), target)
            except formats.FormatError:
                continue
            if foreign.recognise(Literal(written)):
                mistaken.append(target)
    assert len(data) > 200
    assert mistaken == []


@pytest.mark.parametrize(
    "model",
    [
        pytest.param({"ir_version": 1, "producer_name": "\n" + "p" * 40}, id="like a saved model"),
        pytest.param({"ir_version": 1, "producer_name": "\n\x1e\x12\x04name" + "p" * 40}, id="more like a saved model"),
        pytest.param({"ir_version": 3, "producer_name": "\n\x0e\n\x01x\x1a\x09" + "p" * 40}, id="like Core ML"),
        pytest.param({"producer_name": "<html>"}, id="a page as producer"),
        pytest.param({"ir_version": 8, "doc_string": "GGUF PK\3\4 data.pkl"}, id="marks within"),
    ],
)
def test_models_that_look_foreign_are_read(model: dict[str, Any]) -> None:
    """A model is read even if its first bytes look foreign: foreign kinds are tested only if it is not a model."""
    proto = onnx.ModelProto(**model)
    proto.graph.name = "g"
    proto.opset_import.add(version=17)
    assert "g" == getattr(formats.loads(proto.SerializeToString()).graph, "name", None)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"\x80\x04hello", id="no pickle"),
        pytest.param(LFS.replace(b"git-lfs", b"git-llfs"), id="no pointer"),
        pytest.param((100).to_bytes(8, "little") + b"{" + bytes(20), id="safetensors whose header does not fit"),
        pytest.param(b"<xml>hello</xml>", id="another markup"),
        pytest.param(b"\0\0\0\0TFL2" + bytes(40), id="another FlatBuffer"),
        pytest.param(b"\x08\x01\x12\x7f\x0a\x7f", id="too short for a saved model"),
        pytest.param(b"PK\5\6" + bytes(18), id="an empty zip archive"),
        pytest.param(b"\x0a\x05\x0a\x03abc", id="a graph without an operator"),
    ],
)
def test_near_misses_stay_unknown(data: bytes) -> None:
    """A file that only resembles a known kind is not recognised as this kind."""
    assert foreign.recognise(Literal(data)) is None
    with pytest.raises(formats.FormatError):
        formats.loads(data)


@pytest.mark.parametrize("case", ALL)
def test_cut_foreign_files_do_no_harm(tmp_path: Path, case: str) -> None:
    """Every prefix of a foreign file is one of our errors."""
    make, _, _ = CASES[case]
    make(tmp_path / "file")
    data = (tmp_path / "file").read_bytes()[:300]
    for size in range(len(data)):
        with pytest.raises(formats.FormatError):
            formats.loads(data[:size])


@pytest.mark.parametrize("target", ["onnx", "onnxz", "rten"])
@pytest.mark.parametrize("part", [0.3, 0.7, 0.99])
def test_cut_models_are_said_to_be_cut(digits: Path, target: str, part: float) -> None:
    """An incomplete download is reported as such."""
    whole = digits.with_name(f"whole.{target}")
    formats.convert(digits, whole)
    data = whole.read_bytes()
    whole.write_bytes(data[: int(len(data) * part)])
    with pytest.raises(DecodeError, match="seems to be truncated, perhaps by an interrupted download") as caught:
        formats.load(whole)
    assert target == "onnxz" or isinstance(caught.value, TruncatedError)


def test_a_whole_archive_is_not_said_to_be_cut(digits: Path) -> None:
    """Damage in the middle of a file is not reported as a missing end."""
    archive = digits.with_suffix(".onnxz")
    formats.convert(digits, archive)
    data = bytearray(archive.read_bytes())
    data[4] ^= 1
    archive.write_bytes(data)
    with pytest.raises(DecodeError) as caught:
        formats.load(archive)
    assert "cut short" not in caught.value.message


def test_a_pointer_in_the_place_of_weights(digits: Path) -> None:
    """If the data file of a model is a pointer of Git LFS, the error names the data file, and says what to do."""
    model = digits.with_name("model.onnx")
    formats.convert(digits, model, external_data=True)
    (digits.parent / "model.onnx.data").write_bytes(LFS)
    with pytest.raises(ExternalDataError, match="this is a Git LFS pointer") as caught:
        formats.load(model)
    assert digits.parent / "model.onnx.data" == caught.value.path


def test_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error about a folder says so, and names the models in it, or the files that models could be made from."""

    def said() -> str:
        with pytest.raises(IsADirectoryError) as caught:
            formats.load(tmp_path)
        assert str(tmp_path) == caught.value.filename
        return caught.value.strerror or ""

    assert "is a folder without a model" == said()
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").touch()
    assert "optimum-cli export onnx" in said()
    (tmp_path / "onnx").mkdir()
    for name in ("model.onnx", "model_fp16.onnx"):
        (tmp_path / "onnx" / name).touch()
    assert "is a folder; name the model in it: onnx/model.onnx, onnx/model_fp16.onnx" == said()
    monkeypatch.setattr(foreign, "MOST_ENTRIES", 3)  # as if it had millions: those in the folder itself
    assert "onnx/" not in said()
    monkeypatch.undo()
    for number in range(10):
        (tmp_path / f"a{number}.rten").touch()
    assert said().endswith("a4.rten or one of 7 more")
    (tmp_path / "saved_model.pb").touch()
    assert "a TensorFlow SavedModel" in said()


def test_a_core_ml_package(tmp_path: Path) -> None:
    """A package of Core ML, which is a folder, is recognised."""
    (tmp_path / "net.mlpackage").mkdir()
    (tmp_path / "net.mlpackage" / "Manifest.json").write_text("{}")
    with pytest.raises(IsADirectoryError, match="a folder with a Core ML model"):
        formats.load(tmp_path / "net.mlpackage")


PACKAGES = {
    "onnx": ("formats.to_onnx(formats.load(PATH))", "onnx"),
    "onnx_ir": ("formats.to_onnx_ir(formats.load(PATH))", "onnx-ir"),
    "onnxruntime": ("formats.onnxruntime_session(PATH)", "onnxruntime"),
    "cryptography": ("formats.dumps(formats.load(PATH), 'onnxc', key=formats.Key.of(b'a long secret'))", "crypto"),
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("package", PACKAGES)
def test_missing_packages_are_named(root: Path, package: str, python: Callable[..., Any]) -> None:
    """Without an optional package, the error names the extra of this distribution that installs it, which exists."""
    call, extra = PACKAGES[package]
    code = (
        f"import sys; sys.modules[{package!r}] = None\n"
        f"import formats; PATH = {str(root / 'examples' / 'digits.onnx')!r}\n"
        f"try: {call}\n"
        "except formats.FormatError as error: print(isinstance(error, ImportError), error.name, error)"
    )
    result: subprocess.CompletedProcess[str] = python("-c", code)
    assert "" == result.stderr
    assert result.stdout.startswith(f"True {package} ")
    assert result.stdout.endswith(f"not installed: pip install 'onnx-formats[{extra}]'\n")
    assert f"\n{extra} = [" in (root / "pyproject.toml").read_text()


@pytest.mark.parametrize("error", [ModuleNotFoundError("No module named 'inner'", name="inner"), ImportError("no cow")])
def test_a_package_that_cannot_be_imported_is_not_called_missing(error: ImportError) -> None:
    """If an installed package misses another package, or is broken, the error says that, and not that it is missing."""
    line = rf"^messages need the package protobuf, which is installed, but cannot be imported \({error}\): pip install "
    with pytest.raises(MissingPackageError, match=line), needed("google.protobuf", "messages"):
        raise error


def test_nothing_foreign_is_looked_for_in_vain(python: Callable[..., Any], digits: Path) -> None:
    """Reading a model does not load the table of foreign files."""
    code = "import sys, formats; formats.load('digits.onnx'); print('formats.codecs.foreign' in sys.modules)"
    assert "False\n" == python("-c", code).stdout


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (LFS, "a Git LFS pointer"),
        (b"<html>", "HTML"),
        (b"", "an empty file"),
    ],
)
def test_the_functions_of_onnx_name_them_too(tmp_path: Path, content: bytes, words: str) -> None:
    """`load` of the drop-in functions also says what kind of file it got, and names it; its errors keep their class."""
    (tmp_path / "model.onnx").write_bytes(content)
    with pytest.raises(DecodeError, match=words) as caught:
        onnxpb.load(tmp_path / "model.onnx")
    assert tmp_path / "model.onnx" == caught.value.path

"""The adaptors of docs/build_on_it.md do what the page says, for models of any size."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir
import pytest

import formats
import formats.onnxpb
from tests.docs.code_blocks import ROOT, blocks
from tests.onnx_compat.test_references import large_model

PAGE = "docs/build_on_it.md"
DIGITS = ROOT / "examples" / "digits.onnx"


def code(name: str) -> str:
    """Return the block of the page that defines a function, in at most 30 lines."""
    (text,) = (block.text for block in blocks(PAGE) if f"def {name}(" in block.text)
    assert len(text.splitlines()) <= 30
    return text


def adaptor(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return a function of the page."""
    monkeypatch.chdir(folder)
    names: dict[str, Any] = {}
    exec(code(name).partition("\n\n\nmodel = ")[0], names)
    found: Callable[..., Any] = names[name]
    return found


def test_the_adaptor_for_onnx_ir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model in onnx-ir has lazy tensors, and is the same model when it is saved."""
    model = adaptor("to_ir", tmp_path, monkeypatch)(formats.load(DIGITS))
    kinds = {type(value.const_value) for value in model.graph.initializers.values()}
    assert onnx_ir.LazyTensor in kinds
    formats.save(model, tmp_path / "saved.onnx")
    for one, other in zip(onnx.load(DIGITS).graph.initializer, onnx.load("saved.onnx").graph.initializer, strict=True):
        assert onnx.numpy_helper.to_array(one).tolist() == onnx.numpy_helper.to_array(other).tolist()


@pytest.mark.outer
def test_the_adaptor_for_onnxslim(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model that onnxslim makes over our classes is that which it makes over `onnx`."""
    onnxslim = pytest.importorskip("onnxslim")
    expected = onnxslim.slim(onnx.load(DIGITS))
    adaptor("slim", tmp_path, monkeypatch)(DIGITS, tmp_path / "slim.onnx")
    assert onnx.load(tmp_path / "slim.onnx").graph.node == expected.graph.node


MEMORY = """
import resource
import onnx, onnx_ir, formats, formats.onnxpb
{imports}
def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
before = peak()
{code}
{calls}
print(peak() - before)
"""
CALLS = {
    "to_ir": ("", "model = to_ir(formats.load('m.onnx'))\nformats.save(model, 'out.onnx', external_data=True)"),
    "slim": ("import onnxslim", "slim('m.onnx', 'out.onnx')"),
}


@pytest.mark.outer
@pytest.mark.parametrize("name", CALLS)
def test_memory_of_the_adaptors(name: str, tmp_path: Path, python: Callable[..., Any]) -> None:
    """2 GiB of weights go through the adaptors in less memory than a tenth of them."""
    imports, calls = CALLS[name]
    if name == "slim":
        pytest.importorskip("onnxslim")
    large_model(tmp_path)
    text = code(name).partition("\n\n\nmodel = ")[0]
    done = python("-c", MEMORY.format(imports=imports, code=text, calls=calls), timeout=300)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.splitlines()[-1]) < 200, done.stdout
    (tmp_path / "out.onnx.data").unlink(missing_ok=True)


class Counted(formats.Source):
    """The numbers from 0 on, as a program might make a source of its own."""

    def __init__(self, start: int, nbytes: int) -> None:
        self.start, self.nbytes = start, nbytes

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Count."""
        first = self.start + offset
        buffer[:] = (np.arange(first, first + len(buffer)) % 256).astype(np.uint8).tobytes()

    def slice(self, offset: int, nbytes: int) -> Counted:
        """A part."""
        return Counted(self.start + offset, nbytes)

    def view(self) -> memoryview:
        """All."""
        return memoryview(self.read())


@pytest.mark.parametrize("name", ["m.onnx", "m.onnxz", "m.rten", "m.ort"])
def test_sources_of_programs(name: str, tmp_path: Path) -> None:
    """A source with the four names that the page says is a weight: it is compared, shown as an array, and saved."""
    model = formats.load(DIGITS)
    weight = model.tensor("classifier.weight")
    own = Counted(0, weight.source().nbytes)
    weight.raw_data = own
    expected = bytes(range(256)) * (own.nbytes // 256) + bytes(range(own.nbytes % 256))
    assert own.read() == weight.numpy().tobytes() == expected
    formats.save(model, tmp_path / name)
    saved = {each.source().nbytes: each.source().read() for each in formats.load(tmp_path / name).graph.initializer}
    assert expected in saved.values()

"""The operator tests and model files of the `onnx` package, through our formats and back: nothing may change."""

from __future__ import annotations

from pathlib import Path

import onnx
import pytest

from formats.codecs import contract, lookup
from formats.ir.model import Model
from formats.tensordata.engine import to_bytes
from formats.tensordata.sources.source import Literal
from tests.corpus import backend_cases, backend_files

ONNX, ONNXZ = lookup.by_name("onnx"), lookup.by_name("onnxz")


@pytest.fixture(scope="module", params=[0, *(pytest.param(part, marks=pytest.mark.outer) for part in (1, 2, 3))])
def models(request: pytest.FixtureRequest) -> dict[str, bytes]:
    """A quarter of the models of the suite by their ids; all are at least as many as in onnx 1.23."""
    models = {case.id: case.model for case in backend_cases()}
    models |= {name: path.read_bytes() for name, path in backend_files()}
    assert len(models) > 2000
    return {name: models[name] for name in [*models][request.param :: 4]}


def convert(data: bytes, source: contract.Codec, target: contract.Codec) -> bytes:
    """Return the model in another format, all in memory."""
    model: Model = source.read(Literal(data), None)
    return to_bytes(target.plan(model, Path(f"model{target.extensions[0]}"), target.options()))


@pytest.mark.outer
def test_onnx_to_onnx_is_byte_identical(models: dict[str, bytes]) -> None:
    """Each model of the suite is written exactly as it was read."""
    changed = [name for name, data in models.items() if data != convert(data, ONNX, ONNX)]
    assert [] == changed


def test_onnx_to_onnxz_and_back_is_message_equal(models: dict[str, bytes]) -> None:
    """Each model of the suite is the same message after conversion to an archive and back."""
    for name, data in models.items():
        back = convert(convert(data, ONNX, ONNXZ), ONNXZ, ONNX)
        assert data == back or onnx.ModelProto.FromString(data) == onnx.ModelProto.FromString(back), name


@pytest.mark.outer
def test_every_tensor_in_an_archive_survives(models: dict[str, bytes]) -> None:
    """It is also the same if every tensor, however small, has its own entry."""
    for name, data in models.items():
        model = ONNX.read(Literal(data), None)
        archive = to_bytes(ONNXZ.plan(model, Path("m.onnxz"), ONNXZ.options(size_threshold=1)))
        back = convert(archive, ONNXZ, ONNX)
        assert data == back or onnx.ModelProto.FromString(data) == onnx.ModelProto.FromString(back), name

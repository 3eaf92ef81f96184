"""Tests of models for transformers.js; the library itself loads them, in Node and in Chromium."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper, numpy_helper

import formats
from formats import OptionError
from formats.onnxpb.codecs import CODEC
from formats.onnxpb.options import OnnxOptions
from formats.tensordata.plan import WritePlan
from tests.onnxpb.references import model_with_references
from tests.programs import need
from tests.systems import PATIENCE_SECONDS

pytestmark = pytest.mark.outer

LOADER = Path(__file__).parent / "transformers_js" / "load.js"
ROW = [float(number) for number in range(64)]

Python = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A model of three weights of 16 KiB, one after another."""
    random = np.random.default_rng(0)
    weights = [numpy_helper.from_array(random.random((64, 64), "float32") - 0.5, f"w{index}") for index in range(3)]
    names = ["x", "h0", "h1", "y"]
    nodes = [helper.make_node("MatMul", [names[i], f"w{i}"], [names[i + 1]]) for i in range(3)]
    x, y = (helper.make_tensor_value_info(name, 1, ["n", 64]) for name in "xy")
    graph = helper.make_graph(nodes, "g", [x], [y], weights)
    path = tmp_path / "source.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return path


def needed(program: str) -> None:
    """Skip the test without Node or the library, or, for `browser`, without Chromium."""
    need("node")
    if program == "browser":
        need("chromium")
    if not LOADER.with_name("node_modules").exists():
        pytest.skip(f"needs transformers.js (npm ci --prefix {LOADER.parent.name})")


def loaded(program: str, repository: Path, **options: Any) -> dict[str, Any]:
    """Return what `load.js` prints: the files that the library requested, and outputs or an error."""
    command = ["node", LOADER, program, repository, json.dumps(options), json.dumps({"x": ROW})]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def written(source: Path, name: str, **options: Any) -> tuple[Path, formats.ConversionReport]:
    """Return the folder of a model as on the Hub, with the setting from the report in its `config.json`."""
    repository = source.with_name("repository")
    (repository / "onnx").mkdir(parents=True)
    report = formats.convert(source, repository / "onnx" / name, data_names="transformers.js", **options)
    assert report.settings is not None
    config = {"model_type": "custom", **report.settings}
    (repository / "config.json").write_text(json.dumps(config))
    return repository, report


@pytest.mark.parametrize(
    ("program", "dtype", "suffix", "limit", "count"),
    [
        ("node", "fp32", "", 0, 1),
        ("node", "q8", "_quantized", 40_000, 2),
        ("node", "q4", "_q4", 20_000, 3),
        ("browser", "fp32", "", 0, 1),
        ("browser", "q4", "_q4", 20_000, 3),
    ],
)
def test_the_library_finds_all_files(
    program: str, dtype: str, suffix: str, limit: int, count: int, source: Path
) -> None:
    """With the setting from the report, the library loads the model and any number of data files, and computes."""
    needed(program)
    name = f"model{suffix}.onnx"
    repository, report = written(source, name, max_external_file_size=limit)
    files = [f"onnx/{name}", f"onnx/{name}_data", f"onnx/{name}_data_1", f"onnx/{name}_data_2"][: count + 1]
    assert {"transformers.js_config": {"use_external_data_format": {name: count}}} == report.settings
    assert [file.removeprefix("onnx/") for file in files] == sorted(os.listdir(repository / "onnx"))
    found = loaded(program, repository, dtype=dtype)
    assert ["config.json", *files] == found["requested"]
    session = onnxruntime.InferenceSession(source, providers=["CPUExecutionProvider"])
    (expected,) = session.run(None, {"x": np.array([ROW], "float32")})
    np.testing.assert_allclose(np.array(found["outputs"]["y"]), expected[0], rtol=1e-4, atol=1e-3)


def test_another_number_is_not_enough(source: Path) -> None:
    """With a smaller number the library does not load the model, so the setting matters."""
    needed("node")
    repository, _ = written(source, "model.onnx", max_external_file_size=20_000)
    config = {"model_type": "custom", "transformers.js_config": {"use_external_data_format": {"model.onnx": 2}}}
    (repository / "config.json").write_text(json.dumps(config))
    found = loaded("node", repository, dtype="fp32")
    assert "model.onnx_data_2" in found["error"]


def test_the_setting_as_an_option(source: Path) -> None:
    """The setting can be given to `from_pretrained`, too, by the same name."""
    needed("node")
    repository, report = written(source, "model.onnx", max_external_file_size=20_000)
    (repository / "config.json").write_text('{"model_type": "custom"}')
    assert report.settings is not None
    found = loaded("node", repository, dtype="fp32", **report.settings["transformers.js_config"])
    assert 64 == len(found["outputs"]["y"])


def test_the_command_tells_the_setting(source: Path, python: Python) -> None:
    """The command prints the setting as a line, and includes it in the JSON."""
    convert = ("-m", "formats", "convert", source.name, "m.onnx", "--data-names", "transformers.js", "--force")
    setting = {"transformers.js_config": {"use_external_data_format": {"m.onnx": 1}}}
    done = python(*convert)
    assert f"note: config.json must contain {json.dumps(setting)}" in done.stdout + done.stderr
    assert setting == json.loads(python(*convert, "--json").stdout)["settings"]
    formats.convert(source, source.with_name("plain.onnx"))
    assert formats.convert(source, source.with_name("m.rten")).to_json()["settings"] is None


def test_a_model_without_large_weights(source: Path) -> None:
    """If no weight is in a data file, the setting says that there are none."""
    report = formats.convert(source, source.with_name("m.onnx"), data_names="transformers.js", size_threshold="1M")
    assert {"transformers.js_config": {"use_external_data_format": {"m.onnx": 0}}} == report.settings
    assert not source.with_name("m.onnx_data").exists()


def plan_of(folder: Path, *sizes: int, **options: Any) -> WritePlan:
    """Return the plan for a model of tensors of these sizes in bytes, which are holes in a file."""
    places, offset = [], 0
    for nbytes in sizes:
        places.append({"location": "holes.data", "offset": str(offset), "length": str(nbytes)})
        offset += nbytes
    with (folder / "holes.data").open("wb") as file:
        file.truncate(offset)
    path = model_with_references(folder / "holes.onnx", *places)
    proto = onnx.load(path, load_external_data=False)
    for tensor, nbytes in zip(proto.graph.initializer, sizes, strict=True):
        tensor.dims[:], tensor.data_type = [nbytes], onnx.TensorProto.INT8
    path.write_bytes(proto.SerializeToString())
    return CODEC.plan(formats.load(path), folder / "m.onnx", OnnxOptions(data_names="transformers.js", **options))


def test_files_are_small_enough_for_browsers(tmp_path: Path) -> None:
    """By default, data files have less than 2 GB; a report says that a single tensor of 2 GiB is too large."""
    plan = plan_of(tmp_path, 10**9, 10**9, 10**9, 2**31 - 1)
    assert ["m.onnx_data", "m.onnx_data_1", "m.onnx_data_2", "m.onnx_data_3", "m.onnx"] == [
        file.path.name for file in plan.files
    ]
    assert not plan.losses
    plan = plan_of(tmp_path, 1000, 2**31)
    kinds = [("kept_in_graph", False), ("browser_limit", True)]
    assert kinds == [(loss.kind, loss.matters) for loss in plan.losses]


def test_more_files_than_the_library_loads_are_refused(tmp_path: Path) -> None:
    """At most a hundred data files are allowed."""
    assert 101 == len(plan_of(tmp_path, *100 * [2000], max_external_file_size=2000).files)
    with pytest.raises(formats.EncodeError, match=r"there would be 101 data files, .* set a larger"):
        plan_of(tmp_path, *101 * [2000], max_external_file_size=2000)


@pytest.mark.parametrize(
    "options",
    [
        {"external_data": "weights.data"},
        {"external_data": False},
        {"one_file_per_tensor": True},
        {"max_external_file_size": 2**31},
        {"link": True},
    ],
)
def test_what_does_not_go_together(options: dict[str, Any]) -> None:
    """Options that name or size the files differently are refused."""
    with pytest.raises(OptionError):
        OnnxOptions(data_names="transformers.js", **options)


def test_names_that_the_library_does_not_load(source: Path) -> None:
    """A model must be named NAME.onnx, because the library expects this name."""
    with pytest.raises(OptionError, match=r"called NAME\.onnx, not m\.ONNX"):
        formats.convert(source, source.with_name("m.ONNX"), data_names="transformers.js")


def test_a_renamed_model_has_the_right_names(source: Path) -> None:
    """After a move, the data files have the names that the library expects."""
    formats.convert(source, source.with_name("a.onnx"), data_names="transformers.js", max_external_file_size=20_000)
    formats.mv(source.with_name("a.onnx"), source.with_name("b_fp16.onnx"))
    names = ["b_fp16.onnx", "b_fp16.onnx_data", "b_fp16.onnx_data_1", "b_fp16.onnx_data_2", "source.onnx"]
    assert names == sorted(os.listdir(source.parent))
    assert formats.diff(source, source.with_name("b_fp16.onnx")).equal

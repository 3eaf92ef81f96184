"""The pictures of a model and of two models that differ."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest

import formats
from formats import Graph, Model, Tensor
from formats.pictures.pages import compared_tiles, comparison_picture, model_picture
from formats.tensordata.sources.source import Literal
from formats.verbs.inspect import inspect
from formats.verbs.model_files import layout
from tests.commands import run

SVG = "{http://www.w3.org/2000/svg}"
HOSTILE = ["<script>alert(1)</script>", 'a"b&c', "nul\0 bell\7", "Gewicht ü 重み", "", "\u202eevil", "x" * 10_000]


def saved(folder: Path, name: str, weights: dict[str, np.ndarray]) -> Path:
    """Save a model with these weights."""
    nodes = [formats.Node(op_type="Relu", name="/enc/fc1/Relu", input=["onnx::MatMul_1"], output=["y"])]
    tensors = [formats.from_numpy(array, key) for key, array in weights.items()]
    path = folder / name
    formats.save(Model(ir_version=8, graph=Graph(name="g", node=nodes, initializer=tensors)), path)
    return path


def drawn(path: Path, *, as_html: bool = False) -> str:
    """Return the picture of a model."""
    return model_picture(inspect(path, nodes=True), layout(path), as_html=as_html)


def test_any_name_is_text(tmp_path: Path) -> None:
    """Names with any characters and of any length become text of a well-formed document; nothing is run or loaded."""
    tensors = [Tensor(name=name, dims=[999], data_type=1, raw_data=Literal(bytes(3996))) for name in HOSTILE]
    formats.save(Model(graph=Graph(initializer=tensors)), tmp_path / "m.onnxz")
    root = ET.fromstring(drawn(tmp_path / "m.onnxz"))
    titles = [title.text or "" for title in root.iter(f"{SVG}title")]
    for name in ("<script>", 'a"b&c', "nul\N{REPLACEMENT CHARACTER} bell", "Gewicht ü 重み"):
        assert any(title.startswith(name) for title in titles)
    page = drawn(tmp_path / "m.onnxz", as_html=True)
    assert page.startswith("<!doctype html>")
    assert "\u202e" not in page
    assert not re.search(r"<script|src=|url\(|@import|href=(?!\")", page)


def test_a_page_has_a_narrow_and_a_wide_picture(tmp_path: Path) -> None:
    """A telephone shows a picture that was drawn for it, in which texts keep their size."""
    page = drawn(saved(tmp_path, "a.onnx", {"a.b": np.ones(5000, "f4")}), as_html=True)
    assert ["1000", "390"] == re.findall(r'<svg [^>]*?width="(\d+)"', page)
    assert "prefers-color-scheme: dark" in page


def test_weights_without_modules_are_where_they_are_used(tmp_path: Path) -> None:
    """A name such as onnx::MatMul_1 says nothing, so the weight stands in the module of the node that uses it."""
    weights = {"onnx::MatMul_1": np.ones(5000, "f4"), "enc.fc2.bias": np.ones(5000, "f4")}
    titles = [
        title.text or "" for title in ET.fromstring(drawn(saved(tmp_path, "a.onnx", weights))).iter(f"{SVG}title")
    ]
    assert any(title.startswith("enc.fc1.onnx::MatMul_1\n") for title in titles)


def test_two_models_that_differ(tmp_path: Path) -> None:
    """Each weight has the state that `diff` found: how much it differs, or that only one model has it."""
    base = np.linspace(1, 2, 2000, dtype="f4")
    first = {"m.same": base, "m.near": base, "m.far": base, "m.shape": base, "m.gone": base}
    second = {"m.same": base, "m.near": base + 1e-3, "m.far": base + 5, "m.shape": base[:1000], "m.new": base}
    one, other = saved(tmp_path, "a.onnx", first), saved(tmp_path, "b.onnx", second)
    result = formats.diff(one, other, limit=10**6)
    seen = inspect(one, nodes=True), inspect(other, nodes=True)
    tiles, rest = compared_tiles(result, *seen)
    states = {tile.path[-1]: tile.kind for tile in tiles}
    assert rest == []
    assert states == {
        "same": "equal",
        "near": "2",
        "far": "4",
        "shape": "reshaped",
        "gone": "only first",
        "new": "only second",
    }
    for as_html in (False, True):
        text = comparison_picture(result, *seen, as_html=as_html)
        assert "differ by more than 1: 1 tensor, 8.0 kB" in text
        assert "the largest difference is 5" in text


def test_differences_elsewhere_are_listed(tmp_path: Path) -> None:
    """What is not in the weights stands below the picture; of many, the first."""
    path = saved(tmp_path, "a.onnx", {"w": np.ones(2000, "f4")})
    model = formats.load(path)
    model.producer_name = "another"
    assert model.graph is not None
    model.graph.node += [formats.Node(op_type="Abs", input=["y"], output=[f"z{n}"]) for n in range(30)]
    formats.save(model, tmp_path / "b.onnx")
    result = formats.diff(path, tmp_path / "b.onnx", limit=10**6)
    text = comparison_picture(result, inspect(path), inspect(tmp_path / "b.onnx"), as_html=False)
    assert "producer_name" in text
    assert "and 19 more" in text


@pytest.mark.parametrize(("name", "begin"), [("a.svg", "<svg "), ("a.html", "<!doctype html>")])
def test_diff_draws(tmp_path: Path, name: str, begin: str) -> None:
    """`diff --picture` draws all differences, prints the first, and replaces a picture only on request."""
    one = saved(tmp_path, "a.onnx", {f"w.{n}": np.full(2000, n, "f4") for n in range(5)})
    other = saved(tmp_path, "b.onnx", {f"w.{n}": np.full(2000, n + 1, "f4") for n in range(5)})
    picture = tmp_path / name
    done = run("formats", "diff", one, other, "--picture", picture, "--limit", "2")
    assert (1, "and 3 more differences") == (done.exit_code, done.stdout.splitlines()[2])
    assert picture.read_text(encoding="utf-8").startswith(begin)
    assert "differ by at most 1: 5 tensors" in picture.read_text(encoding="utf-8")
    again = run("formats", "diff", one, other, "--picture", picture)
    assert (2, True) == (again.exit_code, "File exists; --force replaces it" in again.stderr)
    assert 1 == run("formats", "diff", one, other, "--picture", picture, "--force").exit_code
    assert 2 == run("formats", "diff", one, other, "--force").exit_code

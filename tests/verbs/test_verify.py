"""Errors in a model file are found, and a correct file has none."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import helper

import formats
from formats.errors import FormatError
from formats.ir.model import Graph, Model, Node, OperatorSetId, StringStringEntry, Tensor, ValueInfo
from formats.tensordata.sources.source import Literal
from formats.verbs.compare import diff
from formats.verbs.inspect import inspect
from formats.verbs.model_files import layout
from formats.verbs.verify import verify
from tests.corpus import backend_files
from tests.onnxpb.protos import encoded

FLOAT, INT64, STRING = 1, 7, 8


def saved(folder: Path, *tensors: Tensor) -> Path:
    """Write a model with these initialisers."""
    path = folder / "m.onnx"
    graph = Graph(name="g", initializer=list(tensors))
    path.write_bytes(encoded(Model(ir_version=10, opset_import=[OperatorSetId("", 17)], graph=graph)))
    return path


def kinds(path: Path, **options: Any) -> list[str]:
    """Return the kinds of all errors."""
    return [finding.kind for finding in verify(path, **options).errors]


@pytest.mark.parametrize("extension", ["onnx", "onnxz", "rten"])
def test_what_is_written_is_right(tiny_model: Path, tmp_path: Path, extension: str) -> None:
    """A file of each format passes, including its checksums, without a note."""
    path = tmp_path / f"a.{extension}"
    formats.convert(tiny_model, path)
    result = verify(path, data=True)
    assert (True, (), ()) == (result.ok, result.errors, result.notes)
    assert extension == json.loads(json.dumps(result.to_json()))["format"]
    assert {"onnx": 0, "onnxz": 2, "rten": 0}[extension] == result.checksums


def test_every_byte_of_a_payload_counts(tiny_model: Path, tmp_path: Path) -> None:
    """Damage to a weight in an archive is only found if the data are read; then the error names the entry."""
    path = tmp_path / "a.onnxz"
    formats.convert(tiny_model, path)
    data = bytearray(path.read_bytes())
    data[2000] ^= 1
    path.write_bytes(data)
    assert verify(path).ok
    (finding,) = verify(path, data=True).errors
    assert ("checksum", "w") == (finding.kind, finding.where)


def test_damaged_structure_is_found(tiny_model: Path, tmp_path: Path) -> None:
    """A file that cannot be read is an error, with the reason and the place."""
    path = tmp_path / "a.onnxz"
    formats.convert(tiny_model, path)
    path.write_bytes(path.read_bytes() + b"\0")
    (finding,) = verify(path).errors
    assert ("structure", True) == (finding.kind, finding.where.startswith("byte "))


@pytest.mark.parametrize("kind", ["node", "value_info"])
def test_damage_deep_in_a_long_list_is_found(kind: str, tmp_path: Path) -> None:
    """Parts that are decoded only when needed are checked, too; every verb reports damage with the file."""
    nodes = [helper.make_node("Neg", [f"x{n}"], [f"x{n + 1}"], name=f"node{n}") for n in range(300)]
    values = [helper.make_tensor_value_info(f"x{n}", FLOAT, [2]) for n in range(301)]
    graph = helper.make_graph(nodes, "g", values[:1], values[-1:], value_info=values[1:-1])
    data = bytearray(helper.make_model(graph).SerializeToString())
    name = {"node": b"node150", "value_info": b"x150"}[kind]
    data[data.rindex(name) - 2] = 0x0F
    path = tmp_path / "m.onnx"
    path.write_bytes(data)
    whole = tmp_path / "whole.onnx"
    whole.write_bytes(helper.make_model(graph).SerializeToString())
    (finding,) = verify(path).errors
    assert ("structure", True) == (finding.kind, f"{kind}[1" in finding.where)
    for look in (inspect, layout, lambda path: diff(whole, path)):
        with pytest.raises(FormatError, match=r"m\.onnx.*wire type 7"):
            look(path)


def test_checksums_of_data_files_are_checked(tiny_model: Path, tmp_path: Path) -> None:
    """The SHA-1 of the data file in a tensor's reference is compared with that of the whole file."""
    path = tmp_path / "a.onnx"
    formats.convert(tiny_model, path, external_data="w.data")
    right = hashlib.sha1((tmp_path / "w.data").read_bytes()).hexdigest()
    for told, errors in ((right, []), (right.upper(), []), ("0" * 40, ["checksum"]), ("x", ["checksum"])):
        proto = onnx.load(path, load_external_data=False)
        del proto.graph.initializer[0].external_data[3:]
        proto.graph.initializer[0].external_data.add(key="checksum", value=told)
        onnx.save(proto, path)
        assert [] == kinds(path)
        assert errors == kinds(path, data=True)
        assert 1 == verify(path, data=True).checksums


def test_hash_of_the_source_is_checked(tiny_model: Path, tmp_path: Path) -> None:
    """The `onnx_hash` of a .rten file is compared with its source, and a missing one is noted."""
    path = tmp_path / "a.rten"
    formats.convert(tiny_model, path)
    assert verify(path, data=True, original=tiny_model).checksums == 1
    assert [] == kinds(path, data=True, original=tiny_model)
    assert ["checksum"] == kinds(path, data=True, original=path)
    formats.convert(tiny_model, path, onnx_hash=False, overwrite=True)
    result = verify(path, data=True, original=tiny_model)
    assert (True, ["checksum"]) == (result.ok, [note.kind for note in result.notes])


@pytest.mark.parametrize(
    ("tensor", "wrong"),
    [
        pytest.param(Tensor(dims=[2], data_type=FLOAT, raw_data=Literal(bytes(8))), False, id="right"),
        pytest.param(Tensor(dims=[2], data_type=FLOAT, raw_data=Literal(bytes(7))), True, id="too short"),
        pytest.param(Tensor(dims=[2], data_type=99, raw_data=Literal(bytes(8))), True, id="unknown type"),
        pytest.param(Tensor(dims=[-2], data_type=FLOAT, raw_data=Literal(bytes(8))), True, id="negative dim"),
        pytest.param(Tensor(dims=[2], data_type=STRING, string_data=[b"a", b"b"]), False, id="strings"),
        pytest.param(Tensor(dims=[3], data_type=STRING, string_data=[b"a", b"b"]), True, id="too few strings"),
        pytest.param(Tensor(dims=[2], data_type=INT64, int64_data=Literal(b"\1\2")), False, id="varints"),
        pytest.param(Tensor(dims=[3], data_type=INT64, int64_data=Literal(b"\1\2")), True, id="too few varints"),
    ],
)
def test_tensors_have_the_data_that_they_ask_for(tensor: Tensor, wrong: bool, tmp_path: Path) -> None:
    """The element type and the dims of each tensor are compared with its data."""
    tensor.name = "t"
    result = verify(saved(tmp_path, tensor), data=True)
    assert [("tensor", "graph.initializer[0]")] * wrong == [finding[:2] for finding in result.errors]


def test_unaligned_tensors_are_noted(tmp_path: Path) -> None:
    """Weights that cannot be used in place are reported, but are not an error."""
    tensors = [Tensor(name="x" * n, dims=[1001], data_type=2, raw_data=Literal(bytes(1001))) for n in (1, 2)]
    tensors.append(Tensor(name="y", dims=[1001], data_type=FLOAT, raw_data=Literal(bytes(4004))))
    path = saved(tmp_path, *tensors)
    assert () == verify(path).notes
    formats.convert(path, path, external_data=True, size_threshold=0, alignment=1, overwrite=True)
    result = verify(path)
    assert (True, ["alignment"]) == (result.ok, [note.kind for note in result.notes])


def test_unused_bytes_of_data_files_are_noted(tiny_model: Path, tmp_path: Path) -> None:
    """Bytes of a data file that no tensor uses are reported, with their number."""
    formats.convert(tiny_model, tmp_path / "a.onnx", external_data="w.data")
    with (tmp_path / "w.data").open("ab") as file:
        file.write(bytes(100))
    (note,) = verify(tmp_path / "a.onnx").notes
    assert ("gap", "100 bytes of it are not used by any tensor") == (note.kind, note.detail)


def test_equal_ranges_are_read_once(tmp_path: Path) -> None:
    """A data file whose checksum is in many tensors is read once."""
    (tmp_path / "w.data").write_bytes(bytes(8000))
    told = {"location": "w.data", "length": "4000", "checksum": hashlib.sha1(bytes(8000)).hexdigest()}
    tensors = []
    for offset in (0, 4000):
        entries = [StringStringEntry(*entry) for entry in {**told, "offset": str(offset)}.items()]
        tensors.append(Tensor(name=str(offset), dims=[1000], data_type=FLOAT, data_location=1, external_data=entries))
    from formats.onnxpb.wire.encoder import encode

    segments = encode(
        Model(ir_version=10, opset_import=[OperatorSetId("", 17)], graph=Graph(name="g", initializer=tensors))
    )
    (tmp_path / "m.onnx").write_bytes(b"".join(s if isinstance(s, bytes) else s.read() for s in segments))  # type: ignore[union-attr]
    result = verify(tmp_path / "m.onnx", data=True)
    assert (True, 2, 8000) == (result.ok, result.checksums, result.read_bytes)


@pytest.mark.outer
def test_what_onnx_takes_is_right(shared_models: list[Path]) -> None:
    """Names in real models have no errors, except if `onnx` finds them, too."""
    wrong = []
    for path in (*(path for _, path in backend_files()), *shared_models):
        if verify(path).errors:
            wrong.append(path.stem)
            with pytest.raises(onnx.checker.ValidationError):
                onnx.checker.check_model(path)
    assert ["unet.ts17.fp16"] == wrong


def test_rten_needs_some_order_of_operators(tmp_path: Path) -> None:
    """Operators of a .rten file may have any order, but none may need its own result."""
    for second, errors in (("x", []), ("y", ["graph"])):
        nodes = [Node(op_type="Neg", domain="rten", input=["z"], output=["y"])]
        nodes.append(Node(op_type="Neg", domain="rten", input=[second], output=["z"]))
        graph = Graph(node=nodes, input=[ValueInfo("x")], output=[ValueInfo("y")])
        formats.save(Model(opset_import=[OperatorSetId("rten", 1)], graph=graph), tmp_path / "m.rten", overwrite=True)
        assert errors == kinds(tmp_path / "m.rten")

"""Many models at addresses: folders and patterns in a store, manifests, and workers of a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import formats
from tests.batch.fleets import lines, save
from tests.commands import run
from tests.tensordata.remote.remote_servers import S3Server

COUNT = 5


@pytest.fixture
def bucket(s3: S3Server, tmp_path: Path) -> str:
    """The address of a folder in S3 with models, some of them in a subfolder and one with a data file."""
    for number in range(COUNT):
        path = save(tmp_path / f"m{number}.onnx", number)
        if number == 3:
            formats.save(formats.load(path), path, external_data=True, overwrite=True)
            s3.fs.put(f"{path}.data", f"{s3.bucket}/models/m3.onnx.data")
        s3.fs.put(str(path), f"{s3.bucket}/models/{'deep/' * (number > 3)}{path.name}")
        formats.convert(path, path.with_suffix(".onnxz"))
    return f"s3://{s3.bucket}"


def given(s3: S3Server) -> list[str]:
    """Return the options of the store."""
    return [part for item in s3.options.items() for part in ("--storage-options", "=".join(item))]


def content(s3: S3Server, folder: str) -> dict[str, bytes]:
    """Return all objects in a folder."""
    s3.fs.invalidate_cache()
    root = f"{s3.bucket}/{folder}"
    return {name.removeprefix(f"{root}/"): s3.fs.cat(name) for name in s3.fs.find(root)}


def wanted(tmp_path: Path) -> dict[str, bytes]:
    """Return the conversions of the models, by their names in the store."""
    names = [f"{'deep/' * (number > 3)}m{number}.onnxz" for number in range(COUNT)]
    return {name: (tmp_path / Path(name).name).read_bytes() for name in sorted(names)}


@pytest.mark.parametrize("sources", ["models", "models/**/*.onnx"])
def test_a_folder_of_a_store_is_converted(bucket: str, s3: S3Server, tmp_path: Path, sources: str) -> None:
    """Folders and patterns mean models in a store; results keep their folders, and the manifest lists all."""
    manifest = tmp_path / "runs.jsonl"
    command = ["batch", f"{bucket}/{sources}", "--out", f"{bucket}/out", "--to", "onnxz", "--manifest", manifest]
    done = run("formats", *command, "--json", *given(s3))
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["converted"] == COUNT
    assert content(s3, "out") == wanted(tmp_path)
    for line in lines(manifest):
        assert line["destination"].startswith(f"{bucket}/out/")
        assert [file["nbytes"] for file in line["destination_files"]] == [line["destination_nbytes"]]
        assert "testing-secret" not in json.dumps(line)
    again = run("formats", *command, "--json", *given(s3))
    assert json.loads(again.stdout)["unchanged"] == COUNT, again.output
    changed = save(tmp_path / "m0.onnx", 77)
    s3.fs.put(str(changed), f"{s3.bucket}/models/m0.onnx")
    s3.fs.rm(f"{s3.bucket}/out/m1.onnxz")
    s3.fs.invalidate_cache()
    third = json.loads(run("formats", *command, "--json", *given(s3)).stdout)
    assert (third["converted"], third["unchanged"], third["failed"]) == (2, COUNT - 2, 0), third
    formats.convert(changed, tmp_path / "m0.onnxz", overwrite=True)
    assert content(s3, "out") == wanted(tmp_path)


def test_nothing_of_others_is_replaced(bucket: str, s3: S3Server, tmp_path: Path) -> None:
    """An existing object is an error of its job, unless the job would write the same bytes."""
    s3.fs.pipe(f"{s3.bucket}/out/m0.onnxz", b"precious")
    s3.fs.put(str(tmp_path / "m1.onnxz"), f"{s3.bucket}/out/m1.onnxz")
    pairs = [(f"{bucket}/models/m{number}.onnx", f"{bucket}/out/m{number}.onnxz") for number in range(3)]
    results = formats.convert_many(pairs, processes=1, storage_options=s3.options)
    assert [type(result.error) for result in results] == [FileExistsError, type(None), type(None)]
    assert content(s3, "out")["m0.onnxz"] == b"precious"


@pytest.mark.outer
def test_workers_of_a_cluster_reach_the_store(bucket: str, s3: S3Server, tmp_path: Path) -> None:
    """Dask's workers read from the store and write to it, with its options."""
    distributed = pytest.importorskip("distributed")
    pairs: list[tuple[Any, Any]] = [
        (f"{bucket}/models/m{number}.onnx", f"{bucket}/out/m{number}.onnxz") for number in range(4)
    ]
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None, silence_logs=50) as cluster,
        distributed.Client(cluster) as client,
    ):
        results = formats.convert_many(
            pairs,
            executor=client.get_executor(pure=False),
            storage_options=s3.options,
            manifest=tmp_path / "runs.jsonl",
        )
    assert [str(result.error) for result in results if not result.ok] == []
    found = content(s3, "out")
    assert found == {name: data for name, data in wanted(tmp_path).items() if name in found}
    assert len(found) == 4

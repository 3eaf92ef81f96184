"""Many models from and to stores."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from remote_servers import S3Server

import formats


def test_many_on_s3(s3: S3Server, digits: Path, tmp_path: Path) -> None:
    """Jobs with addresses are done in several processes; one that fails does not stop the others."""
    for name in ("a.onnx", "b.onnx"):
        s3.fs.put_file(str(digits), f"{s3.bucket}/in/{name}")
    jobs = [
        (f"s3://{s3.bucket}/in/{name}.onnx", f"s3://{s3.bucket}/out/{name}.onnxz") for name in ("a", "missing", "b")
    ]
    results = formats.convert_many(jobs, processes=2, storage_options=s3.options)
    assert ["converted", "failed", "converted"] == [result.state for result in results]
    assert isinstance(results[1].error, FileNotFoundError)
    for name in ("a", "b"):
        assert formats.compare(f"s3://{s3.bucket}/out/{name}.onnxz", digits, storage_options=s3.options).equal
    assert "testing-secret" not in str([result.to_json() for result in results])


def test_one_destination_for_two() -> None:
    """Two jobs with one address are refused before anything is done."""
    with pytest.raises(formats.OptionError, match="would both be written to"):
        formats.convert_many([("a.onnx", "memory://x.onnxz"), ("b.onnx", "memory://x.onnxz")])


def test_folders_and_patterns(s3: S3Server, digits: Path, tmp_path: Path) -> None:
    """The command converts a folder in a store, or what a pattern fits, into another folder, here or there."""
    for name in ("a.onnx", "below/b.onnx", "notes.txt", ".hidden.onnx"):
        s3.fs.put_file(str(digits), f"{s3.bucket}/in/{name}")
    options = s3.options
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": options["key"],
        "AWS_SECRET_ACCESS_KEY": options["secret"],
        "AWS_ENDPOINT_URL": options["endpoint_url"],
    }
    command = [sys.executable, "-m", "formats", "batch", "--to", "onnxz", "-j", "1"]
    for source, place in (("in", f"s3://{s3.bucket}/out"), ("in/*.onnx", str(tmp_path / "out"))):
        words = [*command, f"s3://{s3.bucket}/{source}", "--out", place]
        done = subprocess.run(words, capture_output=True, text=True, check=False, env=environment)
        assert 0 == done.returncode, done.stderr
    s3.fs.invalidate_cache()
    found = sorted(name.partition("/")[2] for name in s3.fs.find(f"{s3.bucket}/out"))
    assert ["out/a.onnxz", "out/below/b.onnxz"] == found
    assert "a.onnxz" in {path.name for path in (tmp_path / "out").iterdir()}
    assert formats.compare(tmp_path / "out" / "a.onnxz", digits).equal

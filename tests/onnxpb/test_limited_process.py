"""A process with limits answers over a pipe, whatever the packages in it print."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest

from formats.onnxpb.limited_process import INFERENCE, LimitedProcess

PRINTING = """
import os
from formats.onnxpb.limited_process import serve

def begin():
    print("ready 0")
    return work

def work(data, numbers):
    os.write(1, b"printed 3\\nby native code\\n")
    print("printed 1000")
    return "done", data[::-1]

def main():
    serve(begin)
"""


def test_what_a_package_prints_is_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Texts that Python or native code writes to stdout do not come between the answers."""
    (tmp_path / "printing_package.py").write_text(PRINTING)
    monkeypatch.syspath_prepend(str(tmp_path))
    process = LimitedProcess("printing_package", nullcontext, INFERENCE)
    assert [("done", b"cba"), ("done", b"fed")] == [process.ask(data) for data in (b"abc", b"def")]
    process.end()

"""Tests of limits of the system, and of names in files that try to control the terminal."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import onnx
import pytest

from tests import commands

LIMITS = {
    "RLIMIT_AS": [size << 18 for size in (1, 2, 4, 8, 16, 64)],
    "RLIMIT_NOFILE": (4, 5, 6, 8, 12, 16),
    "RLIMIT_FSIZE": (0, 1 << 10),
    "RLIMIT_NPROC": (0,),
}
TOLD = (
    r"(there is not enough memory|a thread could not be started|.*too many files are open|.*the file would be too "
    "large)"
)
LOST_BY_PYTHON = re.compile(
    r"SystemError.*exception|Exception ignored in thread started by|code for hash .* was not found|"
    r"field '\w+' is required for"
)
"""What Python itself writes if it has lost a MemoryError: in a call, in a thread, importing hashlib, and compiling."""
TIMEOUT_SECONDS = 120  # nothing may wait for ever
HOSTILE = "\x1b]0;title\x07\x1b[31m\n\rconvert: error: forged\u202e\u2028\u2029\x85\x9b31m"


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="only Linux tells the memory of a process in /proc")
@pytest.mark.parametrize(
    "name",  # those with many sizes take seconds
    [pytest.param(name, marks=[pytest.mark.outer] * (len(sizes) > 2)) for name, sizes in LIMITS.items()],
)
def test_limits_are_named(name: str, digits: Path) -> None:
    """If a system limit is reached, one line names it, no file is left, and no traceback is printed.

    Limits below what the interpreter itself needs are not tested.
    """
    before = sorted(digits.parent.iterdir())
    code = (
        "import resource, sys\n"
        "import formats.cli.process, formats.verbs.convert\n"  # what the interpreter itself needs
        "limit = int(sys.argv.pop(1))\n"
        f"if {name!r} == 'RLIMIT_AS':\n"
        "    limit += int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
        f"resource.setrlimit(resource.{name}, (limit, limit))\n"
        "formats.cli.process.main('convert')"
    )
    outcomes = set()
    for limit in LIMITS[name]:
        for target in ("new.onnxz", "new.rten"):
            new = digits.with_name(target)
            command = [sys.executable, "-c", code, str(limit), digits, new, "--force"]
            done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=TIMEOUT_SECONDS)
            new.unlink(missing_ok=True)
            assert before == sorted(digits.parent.iterdir())
            if name == "RLIMIT_AS" and done.returncode < 0 and sys.version_info < (3, 12):
                continue  # Python 3.11 itself can crash where it has no memory for another frame
            if name == "RLIMIT_AS" and LOST_BY_PYTHON.search(done.stderr):
                continue
            outcomes.add(done.returncode)
            if done.returncode:
                assert (1, 1) == (done.returncode, done.stderr.count("\n")), done.stderr
                assert re.match(rf"convert: error: {TOLD}", done.stderr), done.stderr
                assert "the limit is" in done.stderr or name == "RLIMIT_AS"  # an import can reach this limit, too
    assert 1 in outcomes or name == "RLIMIT_NPROC"  # it does not limit root, and one thread is enough


def test_one_thread_does_where_no_other_starts(digits: Path) -> None:
    """If no thread can be started, the main thread does the work."""
    code = (
        "import sys, threading, formats.cli.process as process\n"
        'def start(*_): raise RuntimeError("can\'t start new thread")\n'
        "threading.Thread.start = start\n"
        "process.main('convert')"
    )
    new = digits.with_name("new.onnxz")
    done = subprocess.run([sys.executable, "-c", code, digits, new], capture_output=True, text=True, check=False)
    assert (0, True) == (done.returncode, new.exists()), done.stderr


def hostile_model(path: Path, location: str | None = None, **places: str) -> None:
    """Return a model with hostile text in every place where a model has text."""
    h = HOSTILE
    model = onnx.ModelProto(ir_version=8, producer_name=h, producer_version=h, domain=h, doc_string=h)
    graph = model.graph
    graph.name = graph.doc_string = h
    model.opset_import.add(domain=h, version=1)
    model.opset_import.add(version=17)
    node = graph.node.add(op_type=h, domain=h, name=h, input=["x" + h, "w" + h], output=["y" + h])
    node.attribute.add(name=h, type=onnx.AttributeProto.GRAPH).g.node.add(op_type=h, input=[h])
    graph.input.add(name="x" + h).type.tensor_type.shape.dim.add(dim_param=h)
    graph.output.add(name="y" + h)
    model.metadata_props.add(key=h, value=h)
    tensor = graph.initializer.add(name="w" + h, data_type=1, dims=[4], raw_data=b"short")
    if location is not None:
        tensor.ClearField("raw_data")
        tensor.data_location = 1
        for key, value in {"location": location, **places}.items():
            tensor.external_data.add(key=key, value=value)
    path.write_bytes(model.SerializeToString())


PLACES = (
    {},
    {"location": "missing" + HOSTILE},
    {"location": "../" + HOSTILE},
    {"location": "w.data", "offset": HOSTILE},
    {"location": "w.data", "length": "9" * 30 + HOSTILE},
)


@pytest.mark.parametrize("places", PLACES)
@pytest.mark.parametrize("flag", [None, "--debug", "--json"])
def test_text_of_files_stays_in_its_line(places: dict[str, str], flag: str | None, tmp_path: Path) -> None:
    """No name in a file can start a line, a terminal sequence or a change of text direction in printed text."""
    model = tmp_path / "m.onnx"
    hostile_model(model, **places)
    (tmp_path / "w.data").write_bytes(bytes(16))
    runs = [["convert", model, tmp_path / f"m.{form}", "-f"] for form in ("rten", "onnxz", "onnx", "json")]
    runs += [["inspect", model], ["verify", model, "--data"], ["diff", model, model]]
    for run in runs:
        done = commands.run("formats", *run, *filter(None, [flag]))
        for text in (done.stdout, done.stderr):
            assert not [char for char in text if not char.isprintable() and char != "\n"], run
            assert not [line for line in text.splitlines() if line.startswith("convert: error: forged")], run
        errors = [line for line in done.stderr.splitlines() if ": error: " in line and not line.startswith(" ")]
        assert len(errors) == (done.exit_code != 0 and "error:" in done.stderr) or flag == "--debug", done.stderr

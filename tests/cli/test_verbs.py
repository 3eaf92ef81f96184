"""Tests of the command `formats`: what it prints, and its exit codes."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

import formats
from tests import commands


def invoke(*arguments: str | Path) -> Any:
    """Run the command in this process; return what it printed and its exit code."""
    return commands.run("formats", *arguments)


@pytest.fixture
def archive(tiny_model: Path, tmp_path: Path) -> Path:
    """The tiny model as an archive."""
    formats.convert(tiny_model, tmp_path / "a.onnxz")
    return tmp_path / "a.onnxz"


def test_inspection_is_a_table(archive: Path) -> None:
    """`inspect` prints the format, inputs, operators and files, and each tensor with its file and offset."""
    done = invoke("inspect", archive)
    assert 0 == done.exit_code
    lines = [" ".join(line.split()) for line in done.stdout.splitlines()]
    for line in (
        "opsets ai.onnx 17",
        "inputs x: float[n,32]",
        "operators 1 node: MatMul x 1",
        "all 1 4,096",
        "parameters 1,024",
    ):
        assert line in lines
    assert "w FLOAT [32,32] 4,096 64 a.onnxz" in lines
    assert f"{archive} {archive.stat().st_size:,}" in lines


def test_table_of_tensors_is_bounded(shared_models: list[Path]) -> None:
    """`inspect` lists the requested number of tensors, and says how many more there are."""
    path = next(path for path in shared_models if path.stem == "gpt2.dyn")
    count = len(formats.inspect(path).tensors)
    shown = invoke("inspect", path, "--tensors", "3").stdout.splitlines()
    assert f"  and {count - 3} more (--tensors {count} or --json lists all)" == shown[-1]
    assert re.match(r"  tensor +data type +dims +bytes +offset +file$", shown[-5])


def test_largest_tensors_come_first_or_those_of_a_pattern() -> None:
    """`--tensors` takes a number of largest tensors, or a pattern of names; anything else is a usage error."""
    digits = Path(__file__).parents[2] / "examples" / "digits.onnx"
    names = [line.split()[0] for line in invoke("inspect", digits, "--tensors", "2").stdout.splitlines()[-3:-1]]
    assert ["classifier.weight", "conv2.weight"] == names
    shown = invoke("inspect", digits, "--tensors", "*.bias").stdout.splitlines()
    assert ["conv2.bias", "classifier.bias", "conv1.bias"] == [line.split()[0] for line in shown[-3:]]
    assert "[24]" in shown[-3]
    assert "  no tensor is called x*" == invoke("inspect", digits, "--tensors", "x*").stdout.splitlines()[-1]
    assert 2 == invoke("inspect", digits, "--tensors", "").exit_code


def test_inspection_is_json(archive: Path) -> None:
    """`inspect --json` prints what `formats.inspect` of the library returns."""
    assert formats.inspect(archive).to_json() == json.loads(invoke("inspect", archive, "--json").stdout)
    (tensor,) = formats.inspect(archive).to_json()["tensors"]
    assert (str(archive), 64) == (tensor["file"], tensor["file_offset"])
    assert {64: 1} == formats.inspect(archive).alignments


@pytest.mark.parametrize(("name", "begin"), [("a.svg", "<svg "), ("a.html", "<!doctype html>")])
def test_layout_is_drawn(archive: Path, tmp_path: Path, name: str, begin: str) -> None:
    """`--picture` writes a picture; it replaces a picture only on request, and other kinds of files never."""
    picture = tmp_path / name
    assert 0 == invoke("inspect", archive, "--picture", picture).exit_code
    assert picture.read_text(encoding="utf-8").startswith(begin)
    assert 1 == invoke("inspect", archive, "--picture", picture).exit_code
    assert 0 == invoke("inspect", archive, "--picture", picture, "-f").exit_code
    assert 2 == invoke("inspect", archive, "--picture", tmp_path / "a.onnx").exit_code


def test_verification_has_exit_codes(archive: Path) -> None:
    """`verify` exits with 0 for a valid file, and with 1 for a damaged or a missing one."""
    done = invoke("verify", archive, "--data")
    assert (0, True) == (done.exit_code, "a.onnxz: ok  onnxz, 1 tensor, 2 checksums of" in done.stdout)
    data = bytearray(archive.read_bytes())
    data[1000] ^= 1
    archive.write_bytes(data)
    assert 0 == invoke("verify", archive).exit_code
    done = invoke("verify", archive, "--data")
    assert (1, True) == (done.exit_code, done.stdout.startswith("error V105: w: the crc32 of its 4,096 bytes is "))
    assert 1 == json.loads(invoke("verify", archive, "--data", "--json").stdout)["errors"].__len__()
    assert 1 == invoke("verify", archive.with_name("none")).exit_code
    assert 2 == invoke("verify", archive, "--original", archive).exit_code


def test_verification_needs_little_memory(tmp_path: Path, python: Any) -> None:
    """The checksums of a large archive are computed piece by piece."""
    if not Path("/proc/self/status").exists():
        pytest.skip("only Linux tells the memory of a process in its own file")
    code = (
        "import numpy, formats\n"
        "array = numpy.zeros(192 << 20, 'uint8')\n"
        "graph = formats.Graph(name='g', initializer=[formats.from_numpy(array, 'w')])\n"
        "formats.save(formats.Model(8, [formats.OperatorSetId('', 17)], graph=graph), 'big.onnxz')\n"
    )
    assert 0 == python("-c", code).returncode
    measured = (
        "from formats.verbs.verify import verify\nassert verify('big.onnxz', data=True).ok\n"
        "print([line.split()[1] for line in open('/proc/self/status') if line.startswith('VmHWM')][0])"
    )
    assert int(python("-c", measured).stdout) < 128 << 10
    os.remove(tmp_path / "big.onnxz")


def test_comparison_has_exit_codes(archive: Path, tiny_model: Path, tmp_path: Path) -> None:
    """`diff` exits with 0 for equal models, 1 for different ones, and 2 if one is unreadable or arguments are wrong."""
    done = invoke("diff", archive, tiny_model)
    assert (0, f"{archive} and {tiny_model}: equal\n") == (done.exit_code, done.stdout)
    model = formats.load(tiny_model)
    model.producer_name = "somebody"
    formats.save(model, tmp_path / "b.onnx")
    done = invoke("diff", archive, tmp_path / "b.onnx")
    assert (1, "producer_name: nothing became 'somebody'") == (done.exit_code, done.stdout.splitlines()[0])
    report = json.loads(invoke("diff", archive, tmp_path / "b.onnx", "--json").stdout)
    assert (False, 1) == (report["equal"], report["count"])
    assert 2 == invoke("diff", archive, tmp_path / "none").exit_code
    assert 2 == invoke("diff", archive).exit_code
    (tmp_path / "bad.onnxz").write_bytes(archive.read_bytes()[:-1])
    done = invoke("diff", archive, tmp_path / "bad.onnxz")
    assert (2, True) == (done.exit_code, done.stderr.startswith("formats: error: "))


def test_encrypted_models_are_looked_at(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the key, an encrypted model can be inspected, verified and compared; a wrong key or two keys are refused."""
    monkeypatch.setenv("KEY", "secret words")
    monkeypatch.setenv("WRONG", "Secret")
    formats.convert(tiny_model, tmp_path / "a.onnxc", key=formats.Key.of("secret words"))
    for arguments in (("inspect",), ("verify", "--data"), ("diff", tiny_model)):
        done = invoke(*arguments, tmp_path / "a.onnxc", "--key-env", "KEY")
        assert (0, "") == (done.exit_code, done.stderr)
        assert invoke(*arguments, tmp_path / "a.onnxc").exit_code in (1, 2)
        assert invoke(*arguments, tmp_path / "a.onnxc", "--key-env", "WRONG").exit_code in (1, 2)
        done = invoke(*arguments, tmp_path / "a.onnxc", "--key-env", "KEY", "--key-file", "x")
        assert (2, True) == (done.exit_code, "exclude each other" in done.stderr)


def test_policies_of_reading(tiny_model: Path, tmp_path: Path) -> None:
    """`--no-hard-links` and `--max-depth` apply to every verb that reads."""
    formats.convert(tiny_model, tmp_path / "a.onnx", external_data=True)
    os.link(tmp_path / "a.onnx.data", tmp_path / "other name")
    for arguments in (("inspect",), ("verify",), ("diff", tiny_model)):
        assert 0 == invoke(*arguments, tmp_path / "a.onnx", "--max-depth", "6").exit_code
        for flags, word in ((["--no-hard-links"], "hard links"), (["--max-depth", "2"], "nested more than")):
            done = invoke(*arguments, tmp_path / "a.onnx", *flags)
            assert done.exit_code in (1, 2)
            assert word in done.output
        assert 2 == invoke(*arguments, tmp_path / "a.onnx", "--max-depth", "251").exit_code


def test_help_lists_the_verbs() -> None:
    """`formats --help`, and `formats` without arguments, list the verbs."""
    for verb in ("convert", "inspect", "verify", "diff"):
        assert f"\n  {verb} " in invoke("--help").stdout
    assert f"formats {formats.__version__}\n" == invoke("--version").stdout
    assert commands.run("formats") == commands.run("formats", "--help")

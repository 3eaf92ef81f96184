"""The messages of docs/troubleshooting.md are those that the commands and onnxruntime print."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import onnx
import onnxruntime
import pytest

import formats
from tests.commands import run
from tests.docs.code_blocks import ROOT

PAGE = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
COMMANDS = (
    "formats convert model.onnx split.onnx",
    "formats convert model.onnx new/model.onnx",
    "formats convert alone/split.onnx alone.onnxz",
    "formats convert alone/outside.onnx outside.onnxz",
    "formats inspect cut.onnx",
    "formats inspect pointer.onnx",
    "formats inspect page.onnx",
    "formats edit model.onnx fixed.onnx --dim n=1",
    "formats convert strings.onnx strings.rten",
    "formats convert grid.onnx old.onnx --opset 12",
    "formats convert strange.onnx strange.ort",
    "formats convert model.onnx model.rten --strict",
    "formats convert model.onnx model.txt",
    "formats convert two.onnxz one.onnx",
    "formats convert secret.onnxc opened.onnx --key-env WRONG_KEY",
)
IN_CODE = 4  # messages that need another program, a kill or a missing package: they are compared with the code
OF_OTHERS = (
    "Could not find an implementation for",
    "rten was built without support",
    "externally-managed-environment",
)


def messages(heading: str) -> list[str]:
    """Return the messages in the first column of the table under a heading."""
    section = PAGE.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    return re.findall(r"^\| `(.+?)`[^|]* \|", section, re.MULTILINE)


def is_in(message: str, text: str) -> bool:
    """Return whether a text has a message, with anything in the place of its dots."""
    pattern = re.escape(message).replace(re.escape("..."), ".*")
    return re.search(pattern, text) is not None


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with all models that the commands read."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("WRONG_KEY", "another long secret")
    shutil.copy(ROOT / "examples" / "digits.onnx", "model.onnx")
    formats.convert("model.onnx", "split.onnx", external_data=True)
    formats.convert("model.onnx", "secret.onnxc", key="a long secret")
    formats.pack(["model.onnx", "split.onnx"], "two.onnxz")
    Path("alone").mkdir()
    shutil.copy("split.onnx", "alone")
    Path("alone/outside.onnx").write_bytes(
        Path("split.onnx").read_bytes().replace(b"\x0fsplit.onnx.data", b"\x0f../nx.onnx.data")
    )
    Path("cut.onnx").write_bytes(Path("model.onnx").read_bytes()[:30_000])
    Path("pointer.onnx").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n")
    Path("page.onnx").write_text("<!DOCTYPE html><html></html>")
    for name, nodes in (
        ("strings", "(string[2] x) => (string[2] y) { y = Identity(x) }"),
        ("grid", "(float[1,1,4,4] x, float[1,2,2,2] z) => (float[1,1,2,2] y) { y = GridSample(x, z) }"),
        ("strange", "(float[2] x) => (float[2] y) { z = Own(x) y = Relu(z) }"),
    ):
        text = f'<ir_version: 8, opset_import: ["" : 17]> g {nodes}'
        onnx.save(onnx.parser.parse_model(text), f"{name}.onnx")
    return tmp_path


def test_messages_of_commands_are_real(folder: Path) -> None:
    """Each message in the table on `formats` is printed by one of the commands, or is a text in its code."""
    printed = "\n".join(run(*shlex.split(line)).stderr for line in COMMANDS)
    code = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "formats").rglob("*.py"))
    listed = messages("Messages of `formats`")
    assert len(listed) > 15
    unprinted = [message for message in listed if not is_in(message, printed)]
    assert len(unprinted) == IN_CODE
    assert not [message for message in unprinted if any(part.strip() not in code for part in message.split("..."))]


def error_of(path: str) -> str:
    """Return what onnxruntime says when it does not load a model."""
    try:
        onnxruntime.InferenceSession(path)
    except Exception as error:
        return str(error)
    return ""


def test_messages_of_onnxruntime_are_real(folder: Path) -> None:
    """Each message of onnxruntime in the second table is what it says of a model; the others are not its own."""
    for name, change in (("newer", {"ir_version": 99}), ("set", {"opset_import": [onnx.helper.make_opsetid("", 99)]})):
        model = onnx.load("model.onnx")
        for field in change:
            model.ClearField(field)
        model.MergeFrom(onnx.ModelProto(**change))
        Path(f"{name}.onnx").write_bytes(model.SerializeToString())
    printed = "\n".join(
        error_of(path) for path in ("newer.onnx", "set.onnx", "alone/split.onnx", "alone/outside.onnx", "cut.onnx")
    )
    unprinted = [text for text in messages("Messages of onnxruntime, RTen and the shell") if not is_in(text, printed)]
    assert unprinted == [*OF_OTHERS]

"""Tests of permissions: no user can read an output who could not read the source."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

import formats
from formats.onnxpb.encryption import crypt
from formats.tensordata.local.osio import SYSTEM
from formats.tensordata.local.output import OutputFile
from formats.tensordata.plan import Permissions
from formats.tensordata.replacing import publication
from formats.tensordata.replacing.journal import journal_path
from tests.systems import posix

pytestmark = posix

KEY = "correct horse"
MODES = [0o600, 0o640, 0o644, 0o444, 0o400, 0o666, 0o664, 0o755]
UMASKS = [0, 0o022, 0o077]


@pytest.fixture(autouse=True)
def quick_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Derive keys in one round."""
    monkeypatch.setattr(crypt, "KEY_ITERATIONS", 1)


@pytest.fixture(params=UMASKS, ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    """Return the umask of the process."""
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def mode(path: Path) -> int:
    """Return the permission bits of a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.sample(3)
@pytest.mark.parametrize("source_mode", MODES, ids=oct)
@pytest.mark.parametrize("target", ["onnx", "onnxz", "rten", "onnxc", "json"])
def test_new_files_are_as_open_as_their_source(digits: Path, umask: int, source_mode: int, target: str) -> None:
    """A new file has the permissions of its source for other users, minus the umask; its owner may always write."""
    digits.chmod(source_mode)
    options = {"key": KEY} if target == "onnxc" else {"external_data": True} if target == "onnx" else {}
    report = formats.convert(digits, digits.with_name(f"new.{target}"), **options)
    assert {(source_mode & 0o666 | 0o600) & ~umask} == {mode(file.path) for file in report.files}


@pytest.mark.sample(3)
@pytest.mark.parametrize("source_mode", MODES, ids=oct)
@pytest.mark.parametrize("target", ["onnx", "onnxz", "rten"])
def test_decrypted_models_are_never_wider(digits: Path, umask: int, source_mode: int, target: str) -> None:
    """A decrypted file gets the permissions of the encrypted file, even if it replaces a file with wider ones."""
    encrypted, new, old = (digits.with_name(name) for name in ("m.onnxc", f"new.{target}", f"old.{target}"))
    formats.convert(digits, encrypted, key=KEY)
    encrypted.chmod(source_mode)
    formats.convert(digits, old)
    old.chmod(0o646)
    formats.convert(encrypted, new, key=KEY)
    formats.convert(encrypted, old, key=KEY, overwrite=True)
    assert (source_mode & 0o666 & ~umask, source_mode & 0o646) == (mode(new), mode(old))


def test_replaced_files_keep_their_permissions(digits: Path) -> None:
    """A file that is replaced by a conversion keeps the permissions that a user gave it."""
    digits.chmod(0o600)
    old = digits.with_name("old.onnxz")
    formats.convert(digits, old)
    old.chmod(0o664)
    formats.convert(digits, old, overwrite=True)
    assert 0o664 == mode(old)


def test_data_files_count(digits: Path) -> None:
    """A model with weights in a private file gives private files, whatever the graph's permissions are."""
    graph = digits.with_name("a.onnx")
    formats.convert(digits, graph, external_data=True)
    graph.chmod(0o644)
    graph.with_name("a.onnx.data").chmod(0o600)
    formats.convert(graph, graph.with_name("b.onnxz"))
    formats.save(formats.load(graph), graph.with_name("c.onnx"), external_data=False)
    assert {0o600} == {mode(graph.with_name(name)) for name in ("b.onnxz", "c.onnx")}


@pytest.mark.parametrize("source_mode", MODES, ids=oct)
def test_a_journal_is_as_open_as_its_model(
    digits: Path, umask: int, source_mode: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The journal of a model in several files, which has their names, has the permissions of the model."""
    new = digits.with_name("new.onnx")
    found: list[int] = []
    real = publication._Steps.forward

    def noted(steps: publication._Steps, *, overwrite: bool) -> None:
        found.append(mode(journal_path(new)))
        real(steps, overwrite=overwrite)

    monkeypatch.setattr(publication._Steps, "forward", noted)
    digits.chmod(source_mode)
    formats.convert(digits, new, external_data=True)
    assert [(source_mode & 0o666 | 0o600) & ~umask] == found


def test_private_from_the_first_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A new file is created with its final permissions, with a name or without; they are not reduced later."""
    created: list[int] = []
    real = os.open

    def note(path: str, flags: int, mode: int = 0o777, **options: int) -> int:
        if flags & os.O_CREAT or flags & os.O_TMPFILE == os.O_TMPFILE:
            created.append(mode)
        return real(path, flags, mode, **options)

    monkeypatch.setattr(os, "open", note)
    for capabilities in (SYSTEM, SYSTEM.__class__(unnamed=False)):
        output = OutputFile(tmp_path / "m", 1, permissions=Permissions(0o600), capabilities=capabilities)
        output.discard()
    assert {0o600} == set(created)

"""The plain text of an encrypted model is on no disk: every write of every route is watched."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import onnx
import pytest
from onnx import TensorProto, helper

import formats
from formats.cli.verbs import VERBS
from formats.onnxpb.encryption import crypt
from tests.programs import need
from tests.systems import PATIENCE_SECONDS
from tests.tensordata.remote.remote_servers import S3Server, s3_server

KEY = "correct horse"
SECRET = b"PLAINTEXT_SECRET"  # in each part of the weights, and in every name of the graph
WRITES = "write,writev,pwrite64,pwritev,pwritev2,copy_file_range,sendfile,splice"
# The command, with so small limits that a model of some KiB passes through everything that a large one does.
COMMAND = """
import sys
from formats.onnxpb.encryption import crypt
from formats.tensordata.remote import remote_file
crypt.KEY_ITERATIONS, remote_file.KEPT_BYTES = 1, 100
{more}
from formats.cli import process
process.main("formats")
"""
LIBRARY = """
import sys, formats
from formats.onnxpb.encryption import crypt
crypt.KEY_ITERATIONS = 1
key = open("key").read()
"""
UNENCRYPTED = "from formats.tensordata import spool; spool._new_cipher = lambda: lambda _, data: bytes(data)"

# The routes: shell commands. Those that decrypt may write plain text only into the folder `plain`, to a pipe or to a
# server; those that encrypt, nowhere.
FORMATS = ("onnx", "onnxz", "rten", "ort", "textproto", "json")
K = "--key-file key"
ROUTES = {
    **{f"to a pipe as {to}": f"formats convert a.onnxc - --to {to} {K} | cat > /dev/null" for to in FORMATS},
    **{f"to a file as {to}": f"formats convert a.onnxc plain/a.{to} {K}" for to in FORMATS},
    **{f"to a store as {to}": f"formats convert a.onnxc $STORE/a.{to} {K}" for to in FORMATS},
    **{f"encrypted, from a pipe of {to}": f"cat a.{to} | formats convert - secret/b.onnxc {K}" for to in FORMATS},
    **{f"encrypted, from a store of {to}": f"formats convert $STORE/in/a.{to} secret/b.onnxc {K}" for to in FORMATS},
    **{f"encrypted, from a file of {to}": f"formats convert a.{to} secret/b.onnxc {K}" for to in FORMATS},
    "to a store in two files": f"formats convert a.onnxc $STORE/b.onnx --external-data --size-threshold 0 {K}",
    "over another one in a store": f"formats convert a.onnxc $STORE/in/over.onnx --force {K}",
    "encrypted, to a store": f"formats convert a.onnx $STORE/c.onnxc {K}",
    "encrypted, from a pipe to a pipe": f"cat a.onnx | formats convert - - --to onnxc {K} | cat > /dev/null",
    "from a pipe to a pipe": f"cat a.onnxc | formats convert - - --to onnx {K} | cat > /dev/null",
    "from a store to a pipe": f"formats convert $STORE/in/a.onnxc - --to onnx {K} | cat > /dev/null",
    "a reader that stops": f"formats convert a.onnxc - --to onnx {K} | head -c 1 > /dev/null",
    "a full device": f"formats convert a.onnxc - --to onnx {K} > /dev/full || true",
    "a preview": f"formats convert a.onnxc plain/a.onnx --dry-run {K}",
    "a preview for a store": f"formats convert a.onnxc $STORE/a.onnx --dry-run {K}",
    "with a backup": f"formats convert a.onnxc secret/old.onnxc --force --backup {K}",
    "float16, encrypted": f"formats convert a.onnxc secret/b.onnxc --dtype float16 {K}",
    "batch": f"formats batch a.onnxc --to rten -o plain {K}",
    "batch, encrypted": f"formats batch a.onnx --to onnxc -o secret --manifest manifest {K}",
    "batch to a store": f"formats batch a.onnxc --to rten -o $STORE/out {K}",
    "edit": f"formats edit secret/old.onnxc secret/old.onnxc --force --metadata a=b {K}",
    "edit to a store": f"formats edit a.onnxc $STORE/e.onnx --metadata a=b {K}",
    "extract": f"formats extract a.onnxc secret/part.onnxc --outputs PLAINTEXT_SECRET_y {K}",
    "extract a weight": f"formats extract a.onnxc plain/w.npy --tensor PLAINTEXT_SECRET_w {K}",
    "extract a weight to a store": f"formats extract a.onnxc $STORE/w.npy --tensor PLAINTEXT_SECRET_w {K}",
    "merge": f"formats merge a.onnxc a.onnx secret/m.onnxc --connect PLAINTEXT_SECRET_y=PLAINTEXT_SECRET_x {K}",
    "share": f"cp a.rten plain/other.rten && formats share a.onnxc plain/other.rten -o plain/shared {K}",
    "pack, unpack": f"formats pack one=a.onnxc plain/p.onnxz {K} && formats unpack plain/p.onnxz plain/folder",
    "inspect": f"formats inspect a.onnxc {K}",
    "inspect a stream": f"cat a.onnxc | formats inspect - {K}",
    "a picture": f"formats inspect a.onnxc --picture plain/p.svg {K}",
    "verify": f"formats verify a.onnxc --data {K}",
    "diff": f"cat a.onnx | formats diff a.onnxc - {K}",
    "files": f"formats files a.onnxc {K}",
    # They take no key, and so refuse an encrypted model.
    "cp, mv, rm": "! formats cp a.onnxc secret/c.onnxc && ! formats mv a.onnxc secret/c.onnxc && ! formats rm a.onnxc",
    "repair": "formats repair secret",
    "a session": "library 'formats.onnxruntime_session(\"a.onnxc\", key=key)'",
    "a session from a pipe": "cat a.onnxc | library 'formats.onnxruntime_session(sys.stdin.buffer, key=key)'",
    "save to a store": "library \"formats.save(formats.load('a.onnxc', key=key), '$STORE/s.onnx')\"",
    "save to a stream": 'library \'formats.save(formats.load("a.onnxc", key=key), sys.stdout.buffer, format="onnx")\''
    " | cat > /dev/null",
}
READ_NO_MODEL = {"completion"}


def model() -> onnx.ModelProto:
    """Return a model that computes its input plus a weight."""
    x, w, y = (f"{SECRET.decode()}_{name}" for name in "xwy")
    raw = SECRET * 1024
    value = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [len(raw) // 4]) for name in (x, y)]
    weight = helper.make_tensor(w, TensorProto.FLOAT, [len(raw) // 4], raw, raw=True)
    graph = helper.make_graph([helper.make_node("Add", [x, w], [y])], "g", value[:1], value[1:], [weight])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


class Place(NamedTuple):
    """A folder with the model in all formats and the folders that routes write into, and a bucket with the same."""

    folder: Path
    environment: dict[str, str]


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    """An S3 server."""
    for package in ("cryptography", "moto", "s3fs"):
        pytest.importorskip(package)
    need("strace")
    with s3_server() as server:
        yield server


@pytest.fixture
def place(server: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    """The files before a route."""
    import fsspec

    monkeypatch.setattr(crypt, "KEY_ITERATIONS", 1)
    monkeypatch.chdir(tmp_path)
    for name in ("plain", "secret", "tmp", "home"):
        Path(name).mkdir()
    Path("key").write_text(KEY)
    onnx.save(model(), "a.onnx")
    for to in FORMATS[1:]:
        formats.convert("a.onnx", f"a.{to}")
    for name in ("a.onnxc", "secret/old.onnxc"):
        formats.convert("a.onnx", name, key=KEY)
    fs = fsspec.filesystem("s3", **server.options, skip_instance_cache=True)
    bucket = f"bucket-{os.getpid()}-{abs(hash(tmp_path))}"
    fs.mkdir(bucket)
    for path in [*Path().glob("a.*"), Path("a.onnx")]:
        fs.put_file(str(path), f"{bucket}/in/{path.name if path.suffix != '.onnx' else 'over.onnx'}")
    fs.put_file("a.onnx", f"{bucket}/in/a.onnx")
    environment = {
        "AWS_ACCESS_KEY_ID": server.options["key"],
        "AWS_SECRET_ACCESS_KEY": server.options["secret"],
        "AWS_ENDPOINT_URL": server.options["endpoint_url"],
        "STORE": f"s3://{bucket}",
        "TMPDIR": str(tmp_path / "tmp"),
        "HOME": str(tmp_path / "home"),
        "PYTHON": sys.executable,
    }
    return Place(tmp_path, {**os.environ, **environment})


def plain_writes(place: Place, route: str, more: str = "") -> tuple[set[str], str]:
    """Return the files that got plain text from the commands of a route, and what these printed on stderr."""
    script = (
        f'set -eo pipefail; formats() {{ "$PYTHON" -c \'{COMMAND.format(more=more)}\' "$@"; }}\n'
        f'library() {{ "$PYTHON" -c \'{LIBRARY}\'"$1"; }}\n{route}'
    )
    command = ["strace", "-f", "-y", "-s", "100000", "-o", "trace", "-e", f"trace={WRITES}", "bash", "-c", script]
    done = subprocess.run(
        command, env=place.environment, capture_output=True, text=True, check=False, timeout=PATIENCE_SECONDS
    )
    found = {str(path) for name in ("tmp", "home") for path in Path(name).rglob("*") if is_plain(path)}
    for line in Path("trace").read_text(errors="replace").splitlines():
        call = re.sub(r'"(\\.|[^"\\])*"', "", line)  # without the bytes
        files = re.findall(r"\d+<([^>]*)>", call)  # in the kernel, from file to file, or the one that is written
        if len(files) > 1 or (files and SECRET.decode() in line):
            found.add(files[0] if "sendfile(" in call else files[-1])
    return found, f"{done.returncode}: {done.stdout[-500:]}{done.stderr[-2000:]}"


def is_plain(path: Path) -> bool:
    """Return whether there is a file with plain text."""
    return path.is_file() and SECRET in path.read_bytes()


def is_allowed(path: str, place: Place) -> bool:
    """Return whether plain text may be written there."""
    return path.startswith((f"{place.folder}/plain/", "pipe:", "socket:", "TCP", "/dev/"))


@pytest.mark.outer
@pytest.mark.parametrize("name", ROUTES)
def test_plain_text_is_on_no_disk(name: str, place: Place) -> None:
    """No route writes a name or a weight of a secret model to a disk, except into a plain file that was asked for."""
    found, told = plain_writes(place, ROUTES[name])
    assert told.startswith("0:") or name == "a reader that stops", told
    assert [] == sorted(path for path in found if not is_allowed(path, place)), told
    if name.startswith("to a file"):
        assert any("/plain/" in path for path in found)  # the watcher sees writes


@pytest.mark.outer
@pytest.mark.parametrize("name", ["to a pipe as onnx", "encrypted, from a pipe of onnx"])
def test_the_watcher_sees_a_temporary_file(name: str, place: Place) -> None:
    """Without the encryption of temporary files, the test above fails."""
    found, told = plain_writes(place, ROUTES[name], UNENCRYPTED)
    assert any(path.startswith(f"{place.folder}/tmp/") for path in found), told


def test_every_verb_is_on_a_route() -> None:
    """A new verb is watched, too."""
    used = {verb for route in ROUTES.values() for verb in re.findall(r"formats (\w+)", route)}
    assert used == {verb.name for verb in VERBS} - READ_NO_MODEL

"""Models on a web server: only the necessary ranges are read, and every answer is checked before it is used."""

from __future__ import annotations

import gzip
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import formats
from formats import codec
from formats.errors import DecodeError, ExternalDataError, FormatError, RemoteError, TensorDataError
from tests.tensordata.remote.remote_servers import Answer, Asked, WebServer, large_model, web_server, write_sparse

GIB = 1 << 30
MIB = 1 << 20


@pytest.fixture
def model(web: WebServer, digits: Path) -> str:
    """The address of a model of about 56 KB in one file, which is a single range."""
    (web.folder / "digits.onnx").write_bytes(digits.read_bytes())
    return web.url("digits.onnx")


@pytest.fixture
def larger(web: WebServer) -> str:
    """The address of an archive of 4 MiB, whose beginning and end are read."""
    rng = np.random.default_rng(7)
    model = large_model(4, MIB)
    for tensor in model.graph.initializer if model.graph else ():
        tensor.raw_data = codec.Literal(rng.bytes(MIB))
    formats.save(model, web.folder / "larger.onnxz")
    return web.url("larger.onnxz")


# Ranges


@pytest.mark.parametrize(("weights", "nodes"), [(256, 100), pytest.param(16, 20_000, marks=pytest.mark.outer)])
@pytest.mark.parametrize(("name", "options"), [("m.onnxz", {}), ("m.onnx", {"external_data": True})])
def test_inspection_of_a_large_model(
    web: WebServer, name: str, options: dict[str, Any], weights: int, nodes: int
) -> None:
    """Inspecting an archive or external data of 1 GiB takes at most 4 requests and 1 MiB besides the graph."""
    model = large_model(weights, GIB // weights, nodes)
    write_sparse(model, web.folder / name, **options)
    formats.save(large_model(0, 0, nodes), web.folder / "graph.onnx")
    seen = formats.inspect(web.url(name))
    assert GIB < seen.nbytes < GIB + 8 * MIB
    assert weights == len(seen.tensors)
    assert {"Relu": nodes} == dict(seen.operators)
    assert len(web.requests) <= 4
    assert web.nbytes <= (web.folder / "graph.onnx").stat().st_size + MIB


def test_inspection_of_weights_in_the_graph(web: WebServer) -> None:
    """Weights of 1 GiB inside an ONNX file are skipped with one short range for each."""
    write_sparse(large_model(64, GIB // 64), web.folder / "m.onnx")
    assert GIB < formats.inspect(web.url("m.onnx")).nbytes
    assert len(web.requests) <= 64 + 4
    assert web.nbytes <= 4 * MIB


@pytest.mark.outer
@pytest.mark.parametrize("name", ["out.onnxz", pytest.param("out.rten", marks=pytest.mark.outer), "out.onnx"])
def test_conversion_of_weights_in_the_graph(web: WebServer, tmp_path: Path, name: str) -> None:
    """A conversion reads a large ONNX file once, in parts that are longer than its weights, several at a time."""
    write_sparse(large_model(256, 300 << 10), web.folder / "m.onnx")
    nbytes = (web.folder / "m.onnx").stat().st_size
    formats.convert(web.url("m.onnx"), tmp_path / name)
    formats.convert(web.folder / "m.onnx", tmp_path / f"local{name}")
    assert (tmp_path / f"local{name}").read_bytes() == (tmp_path / name).read_bytes()
    assert len(web.requests) <= nbytes // (8 * MIB) + 2
    assert web.nbytes <= nbytes + MIB


@pytest.mark.outer
def test_a_part_that_fails(web: WebServer, tmp_path: Path) -> None:
    """If a part of a large ONNX file cannot be read, or belongs to another file, nothing is written."""
    write_sparse(large_model(256, 300 << 10), web.folder / "m.onnx")

    def fault(number: int, asked: Asked, answer: Answer) -> None:
        if number == 5:
            answer.status = 500

    web.fault = fault
    with pytest.raises(formats.RemoteError, match="500"):
        formats.convert(web.url("m.onnx"), tmp_path / "out.onnxz", retries=0)
    web.forget()
    formats.convert(web.url("m.onnx"), tmp_path / "out.onnxz", retries=1)
    (tmp_path / "out.onnxz").unlink()

    def other(number: int, asked: Asked, answer: Answer) -> None:
        if number >= 5:
            answer.headers["ETag"] = '"another"'

    web.forget()
    web.fault = other
    with pytest.raises(formats.TensorDataError, match="has changed"):
        formats.convert(web.url("m.onnx"), tmp_path / "out.onnxz", retries=0)
    assert not list(tmp_path.glob("out*"))


def test_conversion_reads_once(web: WebServer, larger: str, tmp_path: Path) -> None:
    """A conversion reads little more than the file, in few requests, and checks the headers that inspection skips."""
    nbytes = (web.folder / "larger.onnxz").stat().st_size
    formats.convert(larger, tmp_path / "out.onnx")
    formats.convert(web.folder / "larger.onnxz", tmp_path / "local.onnx")
    assert (tmp_path / "local.onnx").read_bytes() == (tmp_path / "out.onnx").read_bytes()
    assert web.nbytes <= nbytes + MIB
    assert len(web.requests) <= 10


def test_small_weights_are_joined(web: WebServer, tmp_path: Path) -> None:
    """Two thousand weights of 2 KiB take a few requests, not one each."""
    model = large_model(2000, 2048)
    formats.save(model, web.folder / "m.onnx", external_data=True)
    formats.convert(web.url("m.onnx"), tmp_path / "out.onnxz")
    formats.convert(web.folder / "m.onnx", tmp_path / "local.onnxz")
    assert (tmp_path / "local.onnxz").read_bytes() == (tmp_path / "out.onnxz").read_bytes()
    assert len(web.requests) <= 12


@pytest.mark.parametrize("suffix", [".onnx", ".onnxz", ".rten", ".textproto", ".json"])
def test_every_format(web: WebServer, digits: Path, suffix: str, tmp_path: Path) -> None:
    """For each format, reading by ranges gives the same as reading the file."""
    formats.convert(digits, web.folder / f"m{suffix}")
    address = web.url(f"m{suffix}")
    local = web.folder / f"m{suffix}"
    assert (
        formats.inspect(local).to_json()["tensors"][0]["dims"]
        == formats.inspect(address).to_json()["tensors"][0]["dims"]
    )
    assert formats.verify(address, data=True).ok
    assert formats.diff(address, local).equal
    formats.convert(address, tmp_path / "a.onnxz")
    formats.convert(local, tmp_path / "b.onnxz")
    assert (tmp_path / "b.onnxz").read_bytes() == (tmp_path / "a.onnxz").read_bytes()


def test_edits_parts_and_merged_models(model: str, digits: Path, tmp_path: Path) -> None:
    """`edit`, `extract` and `merge` read addresses, each as the file there."""
    for folder, source in (("far", model), ("near", digits)):
        (tmp_path / folder).mkdir()
        formats.edit(source, tmp_path / folder / "edited.onnx", rename={"image": "pixels"})
        formats.extract(source, tmp_path / folder / "part.onnx", outputs=["features"])
    for name in ("edited.onnx", "part.onnx"):
        assert formats.diff(tmp_path / "far" / name, tmp_path / "near" / name).equal
    for number, sources in enumerate(((model, digits), (digits, model), (model, model))):
        formats.merge(*sources, tmp_path / f"{number}.onnx", prefix="b/")
        outputs = formats.load(tmp_path / f"{number}.onnx").graph.output
        assert [output.name for output in outputs] == ["probabilities", "b/probabilities"]


def test_an_encrypted_model(web: WebServer, digits: Path, tmp_path: Path) -> None:
    """An encrypted model at an address is opened with its key, and with no other."""
    pytest.importorskip("cryptography")
    formats.convert(digits, web.folder / "m.onnxc", key="secret words")
    formats.convert(web.url("m.onnxc"), tmp_path / "out.onnx", key="secret words")
    assert formats.diff(digits, tmp_path / "out.onnx").equal
    with pytest.raises(formats.CryptError):
        formats.load(web.url("m.onnxc"), key="another")


def test_arrays_and_sessions(web: WebServer, larger: str, model: str) -> None:
    """Arrays of a model at an address equal those of the file, also after pickling; onnxruntime runs the model."""
    here, there = formats.load(web.folder / "larger.onnxz"), formats.load(larger)
    again = pickle.loads(pickle.dumps(there))
    for one, other, third in zip(*(m.graph.initializer for m in (here, there, again)), strict=True):
        assert np.array_equal(one.numpy(), other.numpy(), equal_nan=True)
        assert np.array_equal(one.numpy(), third.numpy(), equal_nan=True)
    pytest.importorskip("onnxruntime")
    session = formats.onnxruntime_session(model)
    image = np.zeros([1, *session.get_inputs()[0].shape[1:]], np.float32)
    (found,) = session.run(None, {session.get_inputs()[0].name: image})[:1]
    local = formats.onnxruntime_session(web.folder / "digits.onnx")
    assert np.array_equal(local.run(None, {local.get_inputs()[0].name: image})[0], found)


def test_large_arrays_are_on_no_disk(web: WebServer, monkeypatch: pytest.MonkeyPatch, larger: str) -> None:
    """A large weight is read in parts into memory, not into a file: the model may become an encrypted one."""
    monkeypatch.setattr(tempfile, "TemporaryFile", None)
    monkeypatch.setattr("formats.tensordata.remote.remote_file.PART_BYTES", 300_000)
    here, there = formats.load(web.folder / "larger.onnxz"), formats.load(larger)
    assert here.graph is not None and there.graph is not None
    assert here.graph.initializer[2].numpy().tobytes() == there.graph.initializer[2].numpy().tobytes()


# External data


def test_external_data_beside_the_model(web: WebServer, digits: Path, tmp_path: Path) -> None:
    """Data files are found next to the model, with any characters in their names."""
    for name in ("weights 1.data", "a%2Fb.data", "ü#?.data"):
        formats.convert(digits, web.folder / "m.onnx", external_data=name, size_threshold=0, overwrite=True)
        assert formats.diff(web.url("m.onnx"), digits).equal
        assert name in {file.path.name for file in formats.inspect(web.url("m.onnx")).files}


@pytest.mark.parametrize(
    "location",
    ["../secret.data", "/secret.data", "sub/../../secret.data", "..\\secret.data", "http://127.0.0.1/x", "C:x"],
)
def test_external_data_elsewhere(web: WebServer, digits: Path, location: str) -> None:
    """A location that leads out of the model's folder is refused before a request is sent."""
    inside = web.folder / "inside"
    inside.mkdir()
    formats.convert(digits, inside / "m.onnx", external_data="x.data", size_threshold=0)
    (web.folder / "secret.data").write_bytes((inside / "x.data").read_bytes())
    model = formats.load(inside / "m.onnx")
    for _, tensor in codec.external_tensors(model):
        tensor.external_data[0].value = location
    parts = (part if isinstance(part, bytes) else part.read() for part in codec.encode(model))
    (inside / "m.onnx").write_bytes(b"".join(parts))
    web.forget()
    with pytest.raises(ExternalDataError):
        formats.load(web.url("inside/m.onnx"))
    assert {"/inside/m.onnx"} == {asked.path for asked in web.requests} or location.startswith("http")
    assert all(asked.path.startswith("/inside/") for asked in web.requests)


def test_data_that_are_missing(web: WebServer, digits: Path) -> None:
    """A missing data file is an error with its address."""
    formats.convert(digits, web.folder / "m.onnx", external_data=True, size_threshold=0)
    (web.folder / "m.onnx.data").unlink()
    with pytest.raises(ExternalDataError, match="does not exist; copy it to this place") as caught:
        formats.load(web.url("m.onnx"))
    assert web.url("m.onnx.data") == str(caught.value.path)


def test_headers_that_are_checked_late(web: WebServer, larger: str, tmp_path: Path) -> None:
    """The local header of an entry is checked when its payload is read, before any of its bytes is returned."""
    data = bytearray((web.folder / "larger.onnxz").read_bytes())
    second = data.index(b"PK\3\4", 4)
    data[second + 14] ^= 1  # its checksum, which then differs from the directory's
    (web.folder / "larger.onnxz").write_bytes(data)
    model = formats.load(larger)
    assert model.graph is not None
    assert model.graph.initializer[0].numpy().nbytes == MIB
    with pytest.raises(DecodeError, match=r"crc32 of entry"):
        model.graph.initializer[1].numpy()
    with pytest.raises(DecodeError, match=r"crc32 of entry"):
        formats.convert(larger, tmp_path / "out.onnx")
    assert [web.folder] == list(tmp_path.iterdir())
    assert not formats.verify(larger, data=True).ok


# Answers that cannot be used


def status(code: int, **headers: str) -> Callable[[Answer], None]:
    """Answer with a status and no bytes of the file."""

    def change(answer: Answer) -> None:
        answer.status, answer.body, answer.headers = code, b"no", headers

    return change


def without_ranges(answer: Answer) -> None:
    """Answer with all of another file of 20 MiB."""
    answer.status, answer.body, answer.headers = 200, bytes(20 * MIB), {}


def compressed(answer: Answer) -> None:
    """Answer with the range compressed, although nobody asked for this."""
    answer.body = gzip.compress(answer.body)
    answer.headers["Content-Encoding"] = "gzip"


def shorter(answer: Answer) -> None:
    """Answer with a byte less than the answer's range has."""
    answer.body = answer.body[:-1]


def longer(answer: Answer) -> None:
    """Answer with a byte more than the answer's range has."""
    answer.body += b"!"


def another_range(answer: Answer) -> None:
    """Answer with the range after the requested one, and say so."""
    found = answer.headers["Content-Range"]
    first = int(found.split()[1].split("-")[0])
    answer.headers["Content-Range"] = found.replace(f"{first}-", f"{first + 1}-", 1)


def without_its_range(answer: Answer) -> None:
    """Answer with a range that is not described."""
    del answer.headers["Content-Range"]


def wrong_length(answer: Answer) -> None:
    """Announce more bytes than are sent."""
    answer.headers["Content-Length"] = str(len(answer.body) + 10)
    answer.cut_bytes = len(answer.body)


def cut(answer: Answer) -> None:
    """End the connection in the middle."""
    answer.cut_bytes = len(answer.body) // 2


def cut_at_once(answer: Answer) -> None:
    """End the connection before the body."""
    answer.cut_bytes = 0


def late(answer: Answer) -> None:
    """Answer later than the timeout."""
    answer.delay_seconds = 4.0


# fault, error, words in it, whether a retry helps
FAULTS = [
    (status(401), PermissionError, "does not allow reading this", False),
    (status(403), PermissionError, "does not allow reading this", False),
    (status(404), FileNotFoundError, "no such file", False),
    (status(410), FileNotFoundError, "no such file", False),
    (status(400), RemoteError, "answered 400", False),
    (status(416), TensorDataError, "has changed", False),
    (status(429), RemoteError, "answered 429", True),
    (status(500), RemoteError, "answered 500", True),
    (status(502), RemoteError, "answered 502", True),
    (status(503, **{"Retry-After": "0"}), RemoteError, "answered 503", True),
    (without_ranges, RemoteError, "sends no ranges.*simplecache::", False),
    (compressed, RemoteError, "in the encoding 'gzip'", False),
    (shorter, RemoteError, "sent", True),
    (longer, RemoteError, "sends more than", True),
    (another_range, RemoteError, "the server sends 'bytes", True),
    (without_its_range, RemoteError, "does not tell which range", False),
    (wrong_length, RemoteError, "failed with ClientPayloadError", True),
    (cut, RemoteError, "failed with ClientPayloadError", True),
    (cut_at_once, RemoteError, "failed with ", True),
    (late, RemoteError, "did not answer in time", True),
]


@pytest.mark.parametrize(
    ("asked", "least", "most"),
    [("7", 7, 7), ("30", 30, 30), ("100", 30, 30), ("0", 0, 1), ("9999999", 0, 1), ("-7", 0, 1), ("soon", 0, 1)],
)
def test_the_server_says_how_long_to_wait(
    web: WebServer, model: str, asked: str, least: float, most: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request is repeated after the seconds that the server asks for, up to 30; what is no such number is ignored."""
    change = status(503, **{"Retry-After": asked})
    web.fault = lambda number, _, answer: change(answer) if number == 0 else None
    waits: list[float] = []
    monkeypatch.setattr("formats.tensordata.remote.stores.sleep", waits.append)
    formats.convert(model, tmp_path / "out.onnx", retries=1)
    (wait,) = waits
    assert least <= wait <= most


@pytest.mark.sample(3)
@pytest.mark.parametrize("number", [0, pytest.param(1, marks=pytest.mark.outer), 2])
@pytest.mark.parametrize(
    ("change", "error", "words", "passes"), FAULTS, ids=lambda value: getattr(value, "__qualname__", None)
)
def test_faults(
    web: WebServer,
    larger: str,
    change: Callable[[Answer], None],
    error: type[Exception],
    words: str,
    passes: bool,
    number: int,
    tmp_path: Path,
) -> None:
    """One bad answer, whether the first, for the end or for weights, is a clear error, and nothing is written.

    If a retry can help, and only then, the request is repeated, and the result is as without the fault.
    """
    count = [0]

    def fault(_: int, asked: Asked, answer: Answer) -> None:
        count[0] += 1
        if count[0] == number + 1:
            change(answer)

    web.fault = fault
    options: dict[str, Any] = {"storage_options": {"timeout": 1.5} if change is late else {}}
    if error is TensorDataError:
        number = max(number, 1)  # before the first answer, nothing is known about the file
    with pytest.raises(error, match=words) as caught:
        formats.convert(larger, tmp_path / "out.onnx", retries=0, **options)
    assert larger in str(caught.value)
    assert [web.folder] == list(tmp_path.iterdir())
    count[0] = 0
    if error is TensorDataError:
        return  # test_a_file_that_is_replaced and the test after it check this
    if passes:
        formats.convert(larger, tmp_path / "out.onnx", retries=1, **options)
        assert formats.diff(tmp_path / "out.onnx", web.folder / "larger.onnxz").equal
    else:
        requests = len(web.requests)
        with pytest.raises(error):
            formats.convert(larger, tmp_path / "out.onnx", retries=3, **options)
        assert len(web.requests) - requests <= 16


def test_retries_end(web: WebServer, model: str) -> None:
    """A request is repeated as often as `retries` says, and not more."""
    web.fault = lambda number, asked, answer: status(503)(answer)
    for retries in (0, 1, 3):
        web.forget()
        with pytest.raises(RemoteError, match="answered 503"):
            formats.load(model, retries=retries)
        assert retries + 1 == len(web.requests)


def test_small_files_without_ranges(web: WebServer, model: str, digits: Path, tmp_path: Path) -> None:
    """A small file is read from a server that ignores ranges."""

    def fault(number: int, asked: Asked, answer: Answer) -> None:
        answer.status, answer.body = 200, (web.folder / "digits.onnx").read_bytes()
        answer.headers.pop("Content-Range", None)

    web.fault = fault
    formats.convert(model, tmp_path / "out.onnxz")
    assert formats.diff(tmp_path / "out.onnxz", digits).equal
    assert 1 == len(web.requests)


def test_whole_copies(web: WebServer, larger: str, tmp_path: Path) -> None:
    """With the prefix `simplecache::`, a server without ranges is asked for the whole file, once."""

    def fault(number: int, asked: Asked, answer: Answer) -> None:
        answer.status, answer.body = 200, (web.folder / "larger.onnxz").read_bytes()
        answer.headers.pop("Content-Range", None)

    web.fault = fault
    formats.convert(f"simplecache::{larger}", tmp_path / "out.onnx")
    assert formats.diff(tmp_path / "out.onnx", web.folder / "larger.onnxz").equal
    assert 1 <= sum(asked.nbytes > MIB for asked in web.requests) <= 2  # fsspec asks for the size, possibly with GET


@pytest.mark.parametrize("number", [1, 2, 4])
def test_a_file_that_is_replaced(web: WebServer, larger: str, number: int, tmp_path: Path) -> None:
    """If a file is replaced between requests, this is an error that says so; an output is never a mix of both files."""
    path = web.folder / "larger.onnxz"

    def fault(count: int, asked: Asked, answer: Answer) -> None:
        if count == number:
            other = bytearray(path.read_bytes())
            other[len(other) // 2] ^= 1
            path.write_bytes(other)
            changed = web.answer(asked)
            answer.headers, answer.body = changed.headers, changed.body

    web.fault = fault
    try:
        formats.convert(larger, tmp_path / "out.onnx", retries=0)
    except TensorDataError as error:
        assert "the file has changed since it was read; run the command again" in str(error)
        assert not (tmp_path / "out.onnx").exists()
    else:
        assert len(web.requests) <= number
    formats.convert(larger, tmp_path / "again.onnx", retries=0)
    assert formats.diff(path, tmp_path / "again.onnx").equal


def test_a_file_that_is_replaced_while_the_graph_is_read(web: WebServer, larger: str) -> None:
    """If the file changes while the graph is read, the graph is read again from the start, if retries are allowed."""
    path = web.folder / "larger.onnxz"

    def fault(count: int, asked: Asked, answer: Answer) -> None:
        if count == 1:
            os.utime(path, ns=(1, 1))
            answer.headers["ETag"] = web.etag(path)

    web.fault = fault
    with pytest.raises(TensorDataError, match="has changed"):
        formats.inspect(larger, retries=0)
    web.forget()
    os.utime(path, ns=(2, 2))
    assert 4 == len(formats.inspect(larger, retries=1).tensors)


def test_redirects(web: WebServer, model: str, tmp_path: Path) -> None:
    """A redirection is followed, even to another host; messages show the given address."""
    other = tmp_path / "other"
    other.mkdir()
    (other / "digits.onnx").write_bytes((web.folder / "digits.onnx").read_bytes())
    with web_server(other) as target:

        def fault(number: int, asked: Asked, answer: Answer) -> None:
            answer.status, answer.body, answer.headers = 302, b"", {"Location": target.url("digits.onnx")}

        web.fault = fault
        assert model == str(formats.inspect(model).path)
        assert 1 == len(target.requests)


def test_what_is_there_instead(web: WebServer) -> None:
    """An HTML page instead of a model is recognised, as in local files."""
    (web.folder / "m.onnx").write_text("<!doctype html><html>" + " " * 5000)
    with pytest.raises(FormatError, match="this is an HTML page"):
        formats.load(web.url("m.onnx"))
    (web.folder / "empty.onnx").write_bytes(b"")
    with pytest.raises(FormatError, match="empty file"):
        formats.load(web.url("empty.onnx"))


def test_a_web_server_takes_no_files(web: WebServer, digits: Path) -> None:
    """Nothing is uploaded to a web server."""
    with pytest.raises(formats.UnsupportedError, match="accepts no files"):
        formats.convert(digits, web.url("out.onnxz"))
    assert not web.requests


# Secrets


def test_secrets(web: WebServer, model: str, digits: Path, tmp_path: Path) -> None:
    """A password and a signature in an address are sent to the server, and are shown nowhere."""
    secret = model.replace("http://", "http://somebody:pass-word@") + "?X-Signature=sig-nature&download=true"
    report = formats.convert(secret, tmp_path / "out.onnxz")
    assert "sig-nature" in web.requests[0].path
    assert web.requests[0].headers["Authorization"].startswith("Basic ")
    texts = [str(report), repr(report), str(report.to_json()), repr(formats.inspect(secret))]
    for code in (403, 404, 500, 503):
        web.fault = lambda number, asked, answer, code=code: status(code)(answer)
        with pytest.raises(OSError) as caught:
            formats.load(secret, retries=0)
        texts += [str(caught.value), repr(caught.value)]
    for wrong in (secret.replace("digits.onnx", "m.xyz"), secret.replace("http:", "nothing:")):
        web.fault = None
        with pytest.raises((OSError, FormatError)) as told:
            formats.load(wrong)
        texts += [str(told.value), repr(told.value)]
    command = [sys.executable, "-m", "formats", "inspect", secret.replace("digits", "missing"), "--debug"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert 1 == done.returncode
    texts += [done.stdout, done.stderr]
    for text in texts:
        assert "pass-word" not in text
        assert "sig-nature" not in text
        assert "somebody" not in text
    assert any("X-Signature=***" in text for text in texts)


@pytest.mark.outer
def test_the_command(web: WebServer, model: str, digits: Path, tmp_path: Path) -> None:
    """The command accepts addresses and options for their stores, whose values are shown nowhere."""

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, "-m", "formats", *words], capture_output=True, text=True, check=False)

    option = '--storage-options=headers={"X-Token": "tok-en"}'
    done = run("convert", model, str(tmp_path / "out.onnxz"), option)
    assert 0 == done.returncode, done.stderr
    assert "tok-en" == web.requests[0].headers["X-Token"]
    assert formats.diff(digits, tmp_path / "out.onnxz").equal
    assert 0 == run("diff", model, str(tmp_path / "out.onnxz")).returncode
    assert 0 == run("verify", model, "--data").returncode
    web.fault = lambda number, asked, answer: status(503)(answer)
    web.forget()
    done = run("inspect", model, option, "--retries", "0", "--debug")
    assert 1 == done.returncode
    assert "answered 503" in done.stderr
    assert "tok-en" not in done.stderr + done.stdout
    assert 1 == len(web.requests)
    done = run("inspect", model, "--storage-options", "tok-en")
    assert 2 == done.returncode
    assert "tok-en" not in done.stderr
    done = run("mv", model, str(tmp_path / "x.onnx"))
    assert 2 == done.returncode
    assert "is an address, but this works only on local files" in done.stderr

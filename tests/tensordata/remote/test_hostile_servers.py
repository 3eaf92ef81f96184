"""Servers that lie about sizes, redirect to others, or answer forever; and addresses that lead back to this system."""

from __future__ import annotations

import http.server
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import formats
from formats.errors import OptionError
from formats.tensordata.remote import stores


class Lying(http.server.ThreadingHTTPServer):
    """A server that serves one file, with a size that it claims, and redirects `/away` to another server."""

    def __init__(self, host: str, data: bytes) -> None:
        super().__init__((host, 0), Handler)
        self.data, self.claimed, self.away, self.pause = data, str(len(data)), "", 0.0
        self.seen: list[dict[str, str]] = []
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def handle_error(self, *_: object) -> None:
        """Print nothing if a client does not want the rest."""

    def url(self, name: str) -> str:
        """Return an address."""
        return f"http://{self.server_address[0]!s}:{self.server_port}/{name}"


class Handler(http.server.BaseHTTPRequestHandler):
    """Answers requests for ranges."""

    server: Lying

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def do_GET(self) -> None:
        """Answer."""
        self.server.seen.append(dict(self.headers))
        if self.path.startswith("/away"):
            self.send_response(302)
            self.send_header("Location", self.server.away)
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        first, last = map(int, self.headers["Range"][6:].split("-"))
        part = self.server.data[first : last + 1]
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {first}-{first + len(part) - 1}/{self.server.claimed}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        for place in range(0, len(part), 100 if self.server.pause else len(part)):
            self.wfile.write(part[place : place + 100] if self.server.pause else part)
            time.sleep(self.server.pause)


@pytest.fixture
def servers(digits: Path) -> Iterator[tuple[Lying, Lying]]:
    """Two servers with the same model."""
    pytest.importorskip("aiohttp")
    both = Lying("127.0.0.1", digits.read_bytes()), Lying("localhost", digits.read_bytes())
    yield both
    for server in both:
        server.shutdown()
        server.server_close()


@pytest.mark.parametrize(
    "claimed", [*map(str, (1 << 60, 1 << 62, (1 << 63) - 1, 1 << 63, 10**19)), "9" * 40, "9" * 5000]
)
@pytest.mark.filterwarnings("error")
def test_impossible_sizes(servers: tuple[Lying, Lying], claimed: str, tmp_path: Path) -> None:
    """Whatever size a server claims, the error is one of the usual kinds, and nothing is left behind."""
    server, _ = servers
    server.claimed = claimed
    with pytest.raises((formats.FormatError, OSError)):
        formats.convert(server.url("digits.onnx"), tmp_path / "m.onnxz", retries=0)
    assert ["digits.onnx"] == [path.name for path in tmp_path.iterdir()]  # the source


SECRETS = {"Authorization": "SECRET", "X-Api-Key": "SECRET", "Cookie": "SECRET", "PRIVATE-TOKEN": "SECRET"}


@pytest.mark.parametrize("elsewhere", [True, False])
def test_own_headers_stay_with_the_server(servers: tuple[Lying, Lying], elsewhere: bool) -> None:
    """Headers that the user gave follow a redirection on the same server, and never one to another server."""
    server, other = servers
    server.away = (other if elsewhere else server).url("digits.onnx")
    found = formats.inspect(server.url("away.onnx"), storage_options={"headers": SECRETS})
    assert found.nbytes == len(server.data)
    assert all(seen["X-Api-Key"] == seen["Authorization"] == "SECRET" for seen in server.seen)
    assert bool(other.seen) == elsewhere
    assert "SECRET" not in str(other.seen)
    assert all("Range" in seen for seen in other.seen)


@pytest.mark.parametrize("place", ["file:///etc/passwd", "ftp://127.0.0.1/x", "/away.onnx", "gopher:x"])
def test_redirections_lead_to_the_web_and_end(servers: tuple[Lying, Lying], place: str) -> None:
    """A redirection to another kind of address, or in a circle, is an error."""
    server, _ = servers
    server.away = place
    with pytest.raises((OSError, formats.FormatError), match="redirects"):
        formats.inspect(server.url("away.onnx"), retries=0)
    assert len(server.seen) <= stores.MAX_REDIRECTIONS


def test_a_server_that_drips_is_left(servers: tuple[Lying, Lying], monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that always sends a byte in time, but would take for ever, gets an error after a stated time."""
    server, _ = servers
    server.pause = 0.2
    monkeypatch.setattr(stores, "SILENCE_SECONDS", 0.5)
    monkeypatch.setattr(stores, "LEAST_BYTES_PER_SECOND", 1 << 26)
    began = time.monotonic()
    with pytest.raises(OSError, match="took more than"):
        formats.inspect(server.url("digits.onnx"), retries=0)
    assert time.monotonic() - began < 60  # all would take 110 s


class Dripping(http.server.ThreadingHTTPServer):
    """A server that answers as S3 does, but the bytes of some answers come one by one."""

    def __init__(self, data: bytes, slow: str) -> None:
        super().__init__(("127.0.0.1", 0), DrippingHandler)
        self.data, self.slow, self.ends = data, slow, threading.Event()
        threading.Thread(target=self.serve_forever, args=(0.01,), daemon=True).start()

    def handle_error(self, *_: object) -> None:
        """Print nothing if a client does not want the rest."""

    @property
    def options(self) -> dict[str, Any]:
        """The storage options of a client."""
        return {"key": "k", "secret": "s", "endpoint_url": f"http://127.0.0.1:{self.server_port}"}


class DrippingHandler(http.server.BaseHTTPRequestHandler):
    """Answers requests for an object, or to write one."""

    server: Dripping
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        """Print nothing."""

    def answer(self) -> None:
        """Answer."""
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        part, total = self.server.data, len(self.server.data)
        lines = ["HTTP/1.1 200 OK"]
        if "Range" in self.headers:
            first, last = map(int, self.headers["Range"][6:].split("-"))
            part = part[first : last + 1]
            lines = ["HTTP/1.1 206 Partial", f"Content-Range: bytes {first}-{first + len(part) - 1}/{total}"]
        if self.command == "PUT":
            part = b""
        lines += [f"Content-Length: {len(part)}", 'ETag: "1"', "Last-Modified: Tue, 24 Nov 2026 00:00:00 GMT", "", ""]
        data = "\r\n".join(lines).encode() + (b"" if self.command == "HEAD" else part)
        if self.command != self.server.slow:
            self.wfile.write(data)
            return
        for place in range(len(data)):
            if self.server.ends.wait(0.05):
                return
            self.wfile.write(data[place : place + 1])

    do_GET = do_HEAD = do_PUT = answer


@pytest.mark.outer
@pytest.mark.parametrize("slow", ["HEAD", "GET", "PUT"])
def test_a_store_that_drips_is_left(slow: str, digits: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A store that always sends a byte in time gets an error, too, when it is asked, read or written."""
    pytest.importorskip("s3fs")
    server = Dripping(digits.read_bytes(), slow)
    monkeypatch.setattr(stores, "SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(stores, "LEAST_BYTES_PER_SECOND", 1 << 26)
    began = time.monotonic()
    try:
        with pytest.raises(OSError, match="took more than 1 s to answer one request"):
            if slow == "PUT":
                place = "s3://bucket/m.onnxz"
                formats.convert(digits, place, overwrite=True, retries=0, storage_options=server.options)
            else:
                place = "s3://bucket/digits.onnx"
                formats.convert(place, tmp_path / "m.onnxz", retries=0, storage_options=server.options)
        assert time.monotonic() - began < 10
        assert [path.name for path in tmp_path.iterdir()] == ["digits.onnx"]  # the source
    finally:
        server.ends.set()
        server.shutdown()
        server.server_close()


CHAINS = ["simplecache::", "filecache::", "blockcache::", "asyncwrapper::", "dir::", "xx::yy::"]


@pytest.mark.parametrize("chain", CHAINS)
def test_no_chain_leads_to_files_of_this_system(tmp_path: Path, digits: Path, chain: str) -> None:
    """A chain around a local file is refused, because its links would lead out of the model's folder."""
    (tmp_path / "m.onnx").write_bytes(digits.read_bytes())
    with pytest.raises(OptionError, match="give its path, without a chain"):
        formats.load(f"{chain}file://{tmp_path}/m.onnx")
    assert formats.load(f"file://{tmp_path}/m.onnx").graph is not None

"""Models on the Hugging Face Hub, read with the package huggingface_hub from a server that answers like the Hub."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

import formats
from tests.tensordata.remote.remote_servers import RANGE, large_model

pytestmark = pytest.mark.outer

MIB = 1 << 20


@dataclass
class Hub:
    """One repository, `owner/name`, with files in the folder `onnx`; downloads are redirected, as on the Hub."""

    files: dict[str, bytes] = field(default_factory=dict)
    asked: list[tuple[str, int]] = field(default_factory=list)  # each request's path, and the bytes that were sent
    port: int = 0

    @property
    def given(self) -> dict[str, Any]:
        """Return the keywords with the storage options for the server."""
        options = {"endpoint": f"http://127.0.0.1:{self.port}", "token": False, "skip_instance_cache": True}
        return {"storage_options": options, "retries": 0}

    def entries(self) -> list[dict[str, Any]]:
        """Return the files as the Hub lists them."""
        return [
            {"type": "file", "path": f"onnx/{name}", "size": len(data), "oid": hashlib.sha1(data).hexdigest()}
            for name, data in self.files.items()
        ]

    def answer(self, path: str, span: str) -> tuple[int, dict[str, str], bytes]:
        """Return the status, headers and body for a request."""
        if path.startswith("/api/models/owner/name/tree/main/onnx"):
            return 200, {"Content-Type": "application/json"}, json.dumps(self.entries()).encode()
        if path.startswith("/api/models/owner/name/tree/main"):
            folder = {"type": "directory", "path": "onnx", "oid": "0", "size": 0}
            return 200, {"Content-Type": "application/json"}, json.dumps([folder]).encode()
        if path.startswith("/api/models/owner/name"):
            found = {"id": "owner/name", "sha": "0" * 40, "siblings": []}
            return 200, {"Content-Type": "application/json"}, json.dumps(found).encode()
        name = path.rpartition("/")[2]
        if path.startswith("/owner/name/resolve/main/onnx/") and name in self.files:
            return 302, {"Location": f"http://127.0.0.1:{self.port}/cdn/{name}", "X-Repo-Commit": "0" * 40}, b""
        if path.startswith("/cdn/") and name in self.files:
            data, found_span = self.files[name], RANGE.fullmatch(span)
            assert found_span, "only ranges are asked for"
            start, stop = int(found_span[1]), min(int(found_span[2]) + 1, len(data))
            return 206, {"Content-Range": f"bytes {start}-{stop - 1}/{len(data)}"}, data[start:stop]
        return 404, {"X-Error-Code": "EntryNotFound"}, b"{}"


@pytest.fixture
def hub() -> Iterator[Hub]:
    """A Hub with an empty repository."""
    pytest.importorskip("huggingface_hub")
    state = Hub()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            self.rfile.read(int(self.headers.get("Content-Length") or 0))
            status, headers, body = state.answer(self.path, self.headers.get("Range", ""))
            state.asked.append((self.path, len(body) if self.path.startswith("/cdn") else 0))
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(body))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else body)

        do_HEAD = do_POST = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    state.port = server.server_address[1]
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    yield state
    server.shutdown()
    server.server_close()


def test_a_model_on_the_hub(hub: Hub, digits: Path, tmp_path: Path) -> None:
    """A model with external data is inspected, compared and converted; a missing one is a FileNotFoundError."""
    formats.convert(digits, tmp_path / "m.onnx", external_data=True, size_threshold=0)
    hub.files = {name: (tmp_path / name).read_bytes() for name in ("m.onnx", "m.onnx.data")}
    address = "hf://owner/name/onnx/m.onnx"
    assert 6 == len(formats.inspect(address, **hub.given).tensors)
    assert formats.diff(address, digits, **hub.given).equal
    formats.convert(address, tmp_path / "out.onnxz", **hub.given)
    assert formats.diff(tmp_path / "out.onnxz", digits).equal
    with pytest.raises(FileNotFoundError, match="no such file"):
        formats.load("hf://owner/name/onnx/missing.onnx", **hub.given)


def test_inspection_on_the_hub(hub: Hub, tmp_path: Path) -> None:
    """Inspecting an archive downloads little more than its graph."""
    formats.save(large_model(4, 4 * MIB), tmp_path / "m.onnxz")
    hub.files = {"m.onnxz": (tmp_path / "m.onnxz").read_bytes()}
    assert 4 == len(formats.inspect("hf://owner/name/onnx/m.onnxz", **hub.given).tensors)
    assert sum(nbytes for _, nbytes in hub.asked) < MIB
    assert len([path for path, _ in hub.asked if path.startswith("/cdn")]) <= 4


def test_a_commit_during_the_work(hub: Hub, digits: Path, tmp_path: Path) -> None:
    """If a new commit replaces the model after it was read, reading its weights is an error."""
    formats.save(large_model(4, 9 * MIB), tmp_path / "m.onnxz")
    hub.files = {"m.onnxz": (tmp_path / "m.onnxz").read_bytes()}
    model = formats.load("hf://owner/name/onnx/m.onnxz", **hub.given)
    hub.files = {"m.onnxz": (tmp_path / "m.onnxz").read_bytes()[:-1] + b"x"}
    with pytest.raises(formats.TensorDataError, match="has changed"):
        formats.save(model, tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()

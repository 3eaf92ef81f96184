"""Shared parts of the tests of addresses: servers, and short waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

pytest.importorskip("fsspec")

from tests.tensordata.remote.remote_servers import S3Server, WebServer, s3_server, web_server


@pytest.fixture(autouse=True)
def _short_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the waits before repeated requests short."""
    monkeypatch.setattr("formats.tensordata.remote.stores.WAIT_SECONDS", 0.001)


@pytest.fixture
def web(tmp_path: Path) -> Iterator[WebServer]:
    """A web server for the files in a folder."""
    folder = tmp_path / "www"
    folder.mkdir()
    with web_server(folder) as server:
        yield server


@pytest.fixture(scope="session")
def s3_of_session() -> Iterator[S3Server]:
    """An S3 server."""
    for package in ("moto", "s3fs"):
        pytest.importorskip(package)
    with s3_server() as server:
        yield server


@pytest.fixture
def s3(s3_of_session: S3Server) -> Iterator[S3Server]:
    """An S3 server with an empty bucket."""
    import fsspec

    server = s3_of_session
    server.bucket = f"bucket-{uuid4().hex[:8]}"
    server.fs = fsspec.filesystem("s3", **server.options, skip_instance_cache=True)
    server.fs.mkdir(server.bucket)
    server.forget()
    yield server
    server.fault = server.loses = None


@pytest.fixture
def memory() -> Iterator[str]:
    """The address of a new folder in memory."""
    import fsspec

    name = uuid4().hex
    yield f"memory://{name}"
    fs = fsspec.filesystem("memory")
    if fs.exists(f"/{name}"):
        fs.rm(f"/{name}", recursive=True)

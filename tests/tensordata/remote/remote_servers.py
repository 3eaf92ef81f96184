"""Local servers that count requests and fail on purpose, and large files for them."""

from __future__ import annotations

import re
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from formats.codecs import lookup
from formats.ir.model import Graph, Model, Node, OperatorSetId, Tensor, TensorShape, TensorType, Type, ValueInfo
from formats.tensordata.sources.source import Source

RANGE = re.compile(r"bytes=(\d+)-(\d*)")


class Asked(NamedTuple):
    """A request: its method, its path, its range, and the number of bytes that were sent."""

    method: str
    path: str
    range: tuple[int, int | None] | None
    nbytes: int
    headers: dict[str, str]


@dataclass
class Answer:
    """The answer of a server, which a fault can change; `cut_bytes` ends the connection after this part of the body."""

    status: int
    headers: dict[str, str]
    body: bytes
    cut_bytes: int | None = None
    delay_seconds: float = 0.0


@dataclass
class WebServer:
    """An HTTP server for the files in a folder, with ranges and ETags.

    `fault` gets the number of the request, from 0 on, the request, and the answer, which it may change.
    """

    folder: Path
    port: int = 0
    requests: list[Asked] = field(default_factory=list)
    fault: Callable[[int, Asked, Answer], None] | None = None
    etag: Callable[[Path], str] = lambda path: f'"{path.stat().st_mtime_ns}-{path.stat().st_size}"'

    def url(self, name: str) -> str:
        """Return the address of a file."""
        return f"http://127.0.0.1:{self.port}/{name}"

    @property
    def nbytes(self) -> int:
        """Return how many bytes of files were sent."""
        return sum(asked.nbytes for asked in self.requests)

    def forget(self) -> None:
        """Restart the counts."""
        self.requests.clear()

    def answer(self, asked: Asked) -> Answer:
        """Return the correct answer."""
        path = self.folder / unquote(urlsplit(asked.path).path).lstrip("/")
        if not path.is_file():
            return Answer(404, {}, b"not found")
        nbytes = path.stat().st_size
        headers = {"ETag": self.etag(path), "Accept-Ranges": "bytes"}
        if asked.range is None:
            return Answer(200, headers, path.read_bytes())
        start, last = asked.range
        stop = nbytes if last is None else min(last + 1, nbytes)
        if start >= nbytes:
            return Answer(416, {**headers, "Content-Range": f"bytes */{nbytes}"}, b"")
        with path.open("rb") as file:
            file.seek(start)
            body = file.read(stop - start)
        return Answer(206, {**headers, "Content-Range": f"bytes {start}-{stop - 1}/{nbytes}"}, body)


@contextmanager
def web_server(folder: Path) -> Iterator[WebServer]:
    """Run a server for the files in a folder while the context lasts."""
    state = WebServer(folder)
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 20
        disable_nagle_algorithm = True

        def log_message(self, *_: Any) -> None:
            pass

        def do_GET(self) -> None:
            found = RANGE.fullmatch(self.headers.get("Range", ""))
            span = (int(found[1]), int(found[2]) if found[2] else None) if found else None
            asked = Asked(self.command, self.path, span, 0, dict(self.headers))
            with lock:
                number = len(state.requests)
                answer = state.answer(asked)
                if state.fault:
                    state.fault(number, asked, answer)
                body = b"" if self.command == "HEAD" else answer.body
                state.requests.append(asked._replace(nbytes=len(body[: answer.cut_bytes])))
            time.sleep(answer.delay_seconds)
            try:
                self.send_response(answer.status)
                for name, value in {"Content-Length": str(len(answer.body)), **answer.headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(body[: answer.cut_bytes])
                if answer.cut_bytes is not None:
                    self.close_connection = True
                    self.wfile.flush()
                    self.connection.shutdown(2)
            except OSError:  # the client has closed the connection
                self.close_connection = True

        do_HEAD = do_POST = do_PUT = do_GET

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    state.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()


@dataclass
class S3Server:
    """moto's S3 behind a server that counts requests and can fail.

    `fault` returns the status of a request that is not executed, or None. If `loses` is true for a request, the request
    is executed, but the answer says that the server failed.
    """

    port: int = 0
    requests: list[Asked] = field(default_factory=list)
    fault: Callable[[int, Asked], int | None] | None = None
    loses: Callable[[Asked], bool] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """Return the storage options for it."""
        return {"key": "testing-key", "secret": "testing-secret", "endpoint_url": f"http://127.0.0.1:{self.port}"}

    @property
    def nbytes(self) -> int:
        """Return how many bytes were sent."""
        return sum(asked.nbytes for asked in self.requests)

    def forget(self) -> None:
        """Restart the counts."""
        self.requests.clear()


@contextmanager
def s3_server() -> Iterator[S3Server]:
    """Run an S3 server while the context lasts."""
    from moto.server import DomainDispatcherApplication, create_backend_app
    from werkzeug.serving import make_server

    state = S3Server()
    application = DomainDispatcherApplication(create_backend_app)
    lock = threading.Lock()

    def counted(environ: dict[str, Any], start_response: Any) -> Any:
        found = RANGE.fullmatch(environ.get("HTTP_RANGE", ""))
        span = (int(found[1]), int(found[2]) if found[2] else None) if found else None
        headers = {key: str(value) for key, value in environ.items() if key.startswith("HTTP_")}
        path = environ["PATH_INFO"] + ("?" + environ["QUERY_STRING"] if environ.get("QUERY_STRING") else "")
        asked = Asked(environ["REQUEST_METHOD"], path, span, 0, headers)
        with lock:
            number = len(state.requests)
            status = state.fault(number, asked) if state.fault else None
            state.requests.append(asked)
        if status is None and state.loses and state.loses(asked):
            status = 500
            b"".join(application(environ, lambda *_: lambda _: None))
        elif status is not None:
            environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if status is not None:
            code = {500: "InternalError", 503: "SlowDown"}.get(status, "Fault")
            body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>on purpose</Message></Error>".encode()
            start_response(f"{status} Fault", [("Content-Length", str(len(body))), ("Content-Type", "text/xml")])
            return [body]
        body = b"".join(application(environ, start_response))
        if asked.method == "GET":
            with lock:
                state.requests[number] = asked._replace(nbytes=len(body))
        return [body]

    import logging

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    server = make_server("127.0.0.1", 0, counted, threaded=True)
    state.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()


class Zeros(Source):
    """This many zeros, which take no memory."""

    def __init__(self, nbytes: int) -> None:
        self.nbytes = nbytes

    def readinto(self, offset: int, buffer: memoryview) -> None:
        """Fill the buffer with zeros."""
        buffer[:] = bytes(len(buffer))

    def slice(self, offset: int, nbytes: int) -> Zeros:
        """Return fewer zeros."""
        return Zeros(nbytes)

    def view(self) -> memoryview:
        """Return all the zeros."""
        return memoryview(bytes(self.nbytes))


def large_model(count: int, nbytes: int, nodes: int = 100) -> Model:
    """Return a model with this many weights of this many bytes each, all zeros, and a chain of nodes."""
    tensors = [
        Tensor(name=f"layer.{n}.weight", data_type=1, dims=[nbytes // 4], raw_data=Zeros(nbytes)) for n in range(count)
    ]
    chain = [Node(op_type="Relu", name=f"n{n}", input=[f"x{n}"], output=[f"x{n + 1}"]) for n in range(nodes)]
    graph = Graph(name="large", node=chain, initializer=tensors)
    of = Type(tensor_type=TensorType(elem_type=1, shape=TensorShape()))
    graph.input, graph.output = ([ValueInfo(name="x0", type=of)], [ValueInfo(name=f"x{nodes}", type=of)])
    return Model(ir_version=10, opset_import=[OperatorSetId(version=21)], graph=graph)


def write_sparse(model: Model, path: Path, **options: Any) -> None:
    """Write the model to a file with holes instead of zeros; the checksums in it are those of empty data."""
    codec = lookup.for_writing(path)
    for file in codec.plan(model, path, codec.options(**options)).files:
        with file.path.open("wb") as output:
            output.truncate(file.nbytes)
            for write in file.writes:
                if not isinstance(write.source, Zeros):
                    output.seek(write.file_offset)
                    output.write(write.source.read())
            digests: Any = defaultdict(lambda: bytes(4))
            for late in file.late_writes:
                output.seek(late.file_offset)
                output.write(late.render(digests))

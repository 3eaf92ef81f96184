"""Tests of the sign that a command still works: on every route, on a terminal only, and gone when it should be."""

from __future__ import annotations

import errno
import io
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import formats
from formats import Graph, Model, Node, OperatorSetId
from formats.cli import advice, process
from formats.cli.verbs import VERBS
from formats.pictures import progress_bar
from formats.tensordata import engine, streams, tasks
from formats.verbs import compare
from tests.pseudo_terminal import last_words
from tests.systems import PATIENCE_SECONDS

BAR = "━"
KNOWN = re.compile(r"[\d.]+/[\d.]+ [kM]B")  # how much is done of how much
# Every route on which bytes move. a.onnx and b.onnx are models, z.onnxz has the first one and hashes.
ROUTES = {
    "convert": "convert a.onnx c.onnxz",
    "convert with hashes": "convert a.onnx c.onnxz --sha256",
    "convert several": "convert a.onnx b.onnx out --to onnxz -j 2",
    "convert one into a folder": "convert a.onnx out --to onnxz",
    "batch alone": "batch a.onnx b.onnx --out out --to onnxz -j 1",
    "batch with a manifest": "batch a.onnx b.onnx --out out --to onnxz --manifest m -j 2",
    "edit": "edit a.onnx e.onnx --metadata a=b",
    "extract": "extract a.onnx x.onnx --outputs y",
    "merge": "merge a.onnx b.onnx m.onnx --prefix b/",
    "share": "share a.onnx b.onnx --out out",
    "pack": "pack a.onnx b.onnx p.onnxz",
    "unpack": "unpack z.onnxz u",
    "cp": "cp a.onnx copy.onnx",
    "verify": "verify z.onnxz --data",
    "verify several": "verify z.onnxz a.onnx --data",
    "diff": "diff a.onnx b.onnx",
    "upload": "convert a.onnx memory://waiting/a.onnxz --force",
}


class Terminal(io.StringIO):
    """The text that a terminal got."""

    def isatty(self) -> bool:
        """Return that it is one."""
        return True


class GoneTerminal(Terminal):
    """A terminal that is closed after the first text."""

    def write(self, text: str) -> int:
        """Take the first text only."""
        if self.getvalue():
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return super().write(text)


def slowly(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, which takes longer."""

    def call(*arguments: Any, **keywords: Any) -> Any:
        time.sleep(0.04)
        return function(*arguments, **keywords)

    return call


@pytest.fixture(autouse=True)
def _slow_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Models, work that takes a while, and a bar that does not wait."""
    monkeypatch.chdir(tmp_path)
    for seed, name in enumerate("ab"):
        weights = [
            formats.from_numpy(np.full(1 << 16, number + seed / 2, "float32"), f"w{number}") for number in range(6)
        ]
        node = Node(op_type="Sum", input=[f"w{number}" for number in range(6)], output=["y"])
        graph = Graph(
            name="g", node=[node], initializer=weights, output=[formats.make_value_info("y", "float32", [1 << 16])]
        )
        formats.save(Model(ir_version=8, opset_import=[OperatorSetId(version=17)], graph=graph), f"{name}.onnx")
    formats.convert("a.onnx", "z.onnxz", sha256=True)
    Path("out").mkdir()
    monkeypatch.setattr(progress_bar, "PROGRESS_DELAY_SECONDS", 0.0)
    monkeypatch.setattr(progress_bar, "WATCH_SECONDS", 0.01)
    monkeypatch.setattr(engine, "REPORT_SECONDS", 0.01)
    monkeypatch.setattr(engine, "write_run", slowly(tasks.write_run))
    monkeypatch.setattr(compare, "compare_elements", slowly(compare.compare_elements), raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")


def run(text: str, stderr: io.StringIO) -> tuple[int, str]:
    """Run a command of `formats`; return its exit code and the text of stdout."""
    stdout = io.StringIO()
    with redirect_stdout(stdout), redirect_stderr(stderr):
        code = process.run("formats", text.split())
    return code, stdout.getvalue()


@pytest.mark.sample(3)
@pytest.mark.parametrize("route", ROUTES)
def test_every_route_shows_how_much_is_done(route: str) -> None:
    """Whatever moves bytes shows a bar with the bytes done and to do; the bar is gone before the result is printed."""
    if route == "upload":
        pytest.importorskip("fsspec")
    terminal = Terminal()
    code, stdout = run(ROUTES[route], terminal)
    assert code == (1 if route == "diff" else 0), stdout
    assert KNOWN.search(terminal.getvalue())
    assert BAR not in stdout
    assert stdout
    assert terminal.getvalue().endswith("\x1b[1A\x1b[2K")  # the line of the bar is empty


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # of the thread that draws
def test_work_goes_on_without_its_terminal() -> None:
    """A terminal that is closed takes the bar with it, and not the work."""
    code, stdout = run("convert a.onnx c.onnxz", GoneTerminal())
    assert (0, True) == (code, Path("c.onnxz").exists())
    assert stdout


@pytest.mark.parametrize("verb", [verb.name for verb in VERBS])
def test_every_verb_shows_that_it_works(verb: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verb of which nobody knows how much it has to do shows that it works, but not with `--quiet` or `--json`."""
    (found,) = (each for each in VERBS if each.name == verb)
    arguments = " ".join("x" for name in found.arguments)

    def work(request: Any) -> int:
        """Last until there is a bar, or for long enough that there would be one."""
        latest = time.monotonic() + (PATIENCE_SECONDS if is_shown else 0.03)
        while BAR not in stderr.getvalue() and time.monotonic() < latest:
            time.sleep(0.002)
        return 0

    monkeypatch.setattr(advice, "VERBS", [found._replace(run=work)])
    for flag, stderr, is_shown in (
        ("", Terminal(), True),
        ("--quiet", Terminal(), False),
        ("--json", Terminal(), False),
        ("", io.StringIO(), False),
    ):
        assert (0, "") == run(f"{verb} {arguments} {flag}", stderr)
        assert ("working" in stderr.getvalue(), BAR in stderr.getvalue()) == (is_shown, is_shown)
        assert is_shown or not stderr.getvalue()


@pytest.mark.parametrize(
    ("route", "columns"), [("convert", 40), ("convert several", 40), ("convert", 80), ("verify several", 200)]
)
def test_a_bar_is_one_line(route: str, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a terminal of any width, a bar is one line, which says how much is done."""
    monkeypatch.setenv("COLUMNS", str(columns))
    terminal = Terminal()
    assert 0 == run(ROUTES[route], terminal)[0]
    lines = re.split(r"\x1b\[\??[0-9]*[A-Zhl]|[\r\n]+", re.sub(r"\x1b\[[0-9;]*m", "", terminal.getvalue()))
    assert not [line for line in lines if len(re.findall(r"\d:\d\d:\d\d|-:--:--", line)) != bool(line.strip())]
    assert max(map(len, lines)) <= columns
    assert any(KNOWN.search(line) for line in lines)


def test_a_line_makes_room() -> None:
    """What is printed while a bar is there begins at the start of a line; the bar comes again afterwards."""
    terminal = Terminal()
    code, stdout = run("verify z.onnxz none.onnx z.onnxz --data", terminal)
    assert (1, 3) == (code, len(stdout.splitlines()))
    before, line, after = terminal.getvalue().partition("error: none.onnx")
    assert before.endswith("\x1b[1A\x1b[2K")
    assert line
    assert BAR in after


def test_no_bar_flashes_up_below_the_last_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """After a line was printed, the bar waits before it comes again, since the line may be the last one."""

    def wait_for_bar(*, after: int = 0) -> None:
        latest = time.monotonic() + PATIENCE_SECONDS
        while BAR not in terminal.getvalue()[after:]:
            assert time.monotonic() < latest, terminal.getvalue()
            time.sleep(0.01)

    terminal = Terminal()
    with redirect_stderr(terminal), formats.Progress() as bar:
        wait_for_bar()
        monkeypatch.setattr(progress_bar, "PROGRESS_DELAY_SECONDS", 60.0)
        with bar.paused(), bar.paused():
            pass
        shown = terminal.getvalue()
        time.sleep(0.1)
        assert shown == terminal.getvalue()
        monkeypatch.setattr(progress_bar, "PROGRESS_DELAY_SECONDS", 0.0)
        wait_for_bar(after=len(shown))


def test_a_question_has_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    """While the user types a key, there is no bar; it comes afterwards."""
    shown: list[str] = []

    def ask(words: str) -> str:
        shown.append(terminal.getvalue())
        time.sleep(0.1)
        shown.append(terminal.getvalue())
        return "a key of 32 bytes, more or less."

    terminal = Terminal()
    monkeypatch.setattr("getpass.getpass", ask)
    code, _ = run("convert a.onnx a.onnxc --ask-key", terminal)
    assert (0, 4) == (code, len(shown)), terminal.getvalue()
    assert shown[0] == shown[1]
    assert shown[2] == shown[3]
    assert BAR in terminal.getvalue()[len(shown[3]) :]


def test_streams_show_what_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    """While a model comes from a stream or goes to one, the bar says how many bytes did."""

    def wait_for(words: str) -> None:
        latest = time.monotonic() + PATIENCE_SECONDS
        while not re.search(words, terminal.getvalue()):
            assert time.monotonic() < latest, terminal.getvalue()
            time.sleep(0.01)

    class Slow(io.BytesIO):
        """Goes on only when the terminal says what has moved."""

        def read(self, nbytes: int | None = -1) -> bytes:
            if self.tell():
                wait_for(r"working, received [\d.]+ [kM]B")
            return super().read(nbytes)

        def write(self, data: Any) -> int:
            if self.tell():
                wait_for(r"sending [\d.]+/[\d.]+ [kM]B")
            return super().write(data)

    monkeypatch.setattr(streams, "PIECE_BYTES", 1 << 18)
    terminal, sent = Terminal(), Slow()
    with redirect_stderr(terminal), formats.Progress() as bar:
        formats.convert(Slow(Path("a.onnx").read_bytes()), sent, to_format="onnxz", progress=bar)
    assert terminal.getvalue().index("received") < terminal.getvalue().index("sending")


def test_a_program_sees_the_progress_of_many() -> None:
    """`convert_many` calls `progress` with the bytes done and to do of all jobs, whoever does them."""
    sources = ["a.onnx", "b.onnx", "none.onnx"]
    nbytes = sum(Path(f"{name}.onnx").stat().st_size for name in "ab")
    for processes in (1, 2):
        seen: list[tuple[int, int]] = []
        jobs = [(name, f"out/{processes}{name}z") for name in sources]
        results = formats.convert_many(
            jobs, processes=processes, progress=lambda done, total, seen=seen: seen.append((done, total))
        )
        assert [True, True, False] == [result.ok for result in results]
        assert seen
        assert all(0 <= done <= total and nbytes * 0.9 < total < nbytes * 1.1 for done, total in seen)


@pytest.mark.outer
@pytest.mark.skipif(sys.platform == "win32", reason="only POSIX has pseudo-terminals")
@pytest.mark.parametrize("route", ["convert - s.onnxz", "convert {address} s.onnxz", "convert {address} - --to onnxz"])
def test_control_c_is_answered_at_once(route: str) -> None:
    """While a pipe or a server is silent, Ctrl+C ends the command in half a second, which leaves nothing."""
    import pty

    class Stuck(BaseHTTPRequestHandler):
        """Sends the begin of a large answer, and then nothing."""

        def do_GET(self) -> None:
            first, last = map(int, self.headers["Range"].removeprefix("bytes=").split("-"))  # else it is asked again
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {first}-{last}/{1 << 30}")
            self.send_header("Content-Length", str(last + 1 - first))
            self.end_headers()
            self.wfile.write(b"\x08\x08")
            self.wfile.flush()
            ended.wait(PATIENCE_SECONDS)

        do_HEAD = do_GET

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    ended = threading.Event()
    server = ThreadingHTTPServer(("127.0.0.1", 0), Stuck)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_address[1]}/m.onnx"
    before = sorted(os.listdir())
    leader, follower = pty.openpty()
    environment = {**os.environ, "PYTHONPATH": str(Path(formats.__file__).parents[1])}
    command = [sys.executable, "-m", "formats", *route.format(address=address).split()]
    pipe = subprocess.PIPE
    running = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=follower, env=environment)
    try:
        shown = b""
        while BAR.encode() not in shown:  # it works, and waits
            shown += os.read(leader, 4096)
        time.sleep(0.5)
        started = time.monotonic()
        running.send_signal(signal.SIGINT)
        assert running.wait(PATIENCE_SECONDS) == 128 + signal.SIGINT
        assert time.monotonic() - started < 0.5
        said = last_words(leader, follower).decode()
        assert "formats: error: stopped by SIGINT; nothing was written\r\n" in said
        assert before == sorted(os.listdir())
    finally:
        ended.set()
        running.kill()
        running.communicate()
        server.shutdown()
        server.server_close()
        os.close(follower)  # only now: Linux may lose the last words of a terminal that nobody has open
        os.close(leader)

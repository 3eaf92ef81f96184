"""Runs models in releases of the real RTen runtime, with one program for each, built next to this file.

`cargo build --release --locked --manifest-path tests/runtime/Cargo.toml` builds the runners for the tests. For another
release, add `--package rten-runner-0-26` to this command, and run the tests with `RTEN_RELEASES=0.26`.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import tempfile
import threading
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

DEFAULT_RELEASES = ("0.25", "0.27")
"""The releases that the tests run by default, the oldest first: `default-members` in `Cargo.toml`."""
RELEASES = tuple(os.environ.get("RTEN_RELEASES", "").split()) or DEFAULT_RELEASES
"""The releases that the tests run."""

Value: TypeAlias = np.ndarray | list[np.ndarray]
"""A tensor, or the tensors of a sequence."""


class RunnerError(RuntimeError):
    """The runtime refused the model, failed or panicked; `stage` is load, input, run, output, abort or timeout."""

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(f"{stage}: {message}")
        self.stage = stage
        self.message = message


def binary(release: str) -> Path:
    """Return the path of the runner of a release after it is built."""
    name = f"rten-runner-{release.replace('.', '-')}"
    return Path(__file__).parent / "target" / "release" / (f"{name}.exe" if os.name == "nt" else name)


class Runner:
    """One `--batch` process of a release's runner, started with the first model and again after each crash."""

    def __init__(self, release: str, timeout_seconds: float = 120) -> None:
        self.release = release
        self._timeout_seconds = timeout_seconds
        self._process: subprocess.Popen[str] | None = None

    @classmethod
    def find(cls, release: str) -> Runner | None:
        """Return the runner of a release, or `None` if it is not built."""
        return cls(release) if binary(release).exists() else None

    def run(
        self,
        model_path: str | os.PathLike[str],
        inputs: dict[str, Any],
        *,
        optimize: bool = True,
        mmap: bool = False,
        name: str | None = None,
    ) -> list[Value]:
        """Return the outputs of a .rten or .onnx model in graph order, each in one of RTen's four types.

        An input is an array or, for a sequence, a list of arrays; int64 and bool become int32, float16 and float64
        become float32. With `mmap`, the model and its external data are mapped instead of read.
        `name` is that of the model in an archive.

        Raises:
            RunnerError: the model was refused or failed, or the process died or took too long.
        """
        with tempfile.TemporaryDirectory(prefix="rten-runner-") as folder:
            files = {name: _saved(Path(folder), f"in_{i}", x) for i, (name, x) in enumerate(inputs.items())}
            request = {"model": os.fspath(model_path), "out_dir": folder, "inputs": files}
            answer = self.ask({**request, "optimize": optimize, "mmap": mmap, "name": name})
            return [_loaded(output["file"]) for output in answer["outputs"]]

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one request of the protocol described in `src/main.rs`.

        Raises:
            RunnerError: the answer is a failure, or is missing.
        """
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        expired = threading.Event()

        def expire() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(self._timeout_seconds, expire)
        timer.start()
        try:
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if not line:
            self.close()
            if expired.is_set():
                raise RunnerError("timeout", f"no answer within {self._timeout_seconds} s")
            raise RunnerError("abort", f"the process ended with code {process.returncode}")
        answer: dict[str, Any] = json.loads(line)
        if not answer["ok"]:
            raise RunnerError(answer["stage"], answer["error"])
        return answer

    def close(self) -> None:
        """End the process; the next model starts a new one."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # data that a dead process did not read cannot be flushed
                    pipe.close()

    def _started(self) -> subprocess.Popen[str]:
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            self._process = subprocess.Popen(
                [binary(self.release), "--batch"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
            )
        return self._process


def _saved(folder: Path, stem: str, value: Any) -> str | list[str]:
    """Return the file with an input, or one file for each element of a sequence."""
    if isinstance(value, list):
        return [str(_saved(folder, f"{stem}_{i}", element)) for i, element in enumerate(value)]
    path = folder / f"{stem}.npy"
    np.save(path, np.asarray(value, order="C"))
    return str(path)


def _loaded(file: str | list[str]) -> Value:
    return [np.load(path) for path in file] if isinstance(file, list) else np.load(file)

"""Runs models on the real RTen runtime, through the `rten-runner` binary beside this file.

Build it once: `cargo build --release --locked --manifest-path tests/runtime/Cargo.toml`.
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

BINARY = Path(__file__).parent / "target" / "release" / ("rten-runner.exe" if os.name == "nt" else "rten-runner")

Value: TypeAlias = np.ndarray | list[np.ndarray]
"""A tensor, or the tensors of a sequence."""


class RunnerError(RuntimeError):
    """The runtime refused, failed or panicked; `stage` is where: load, input, run, output, abort or timeout."""

    def __init__(self, stage: str, message: str) -> None:
        super().__init__(f"{stage}: {message}")
        self.stage = stage
        self.message = message


class Runner:
    """One `rten-runner --batch` process, started with the first model and again whenever it has died."""

    def __init__(self, binary: Path = BINARY, timeout_seconds: float = 120) -> None:
        self._binary = binary
        self._timeout_seconds = timeout_seconds
        self._process: subprocess.Popen[str] | None = None

    @classmethod
    def find(cls) -> Runner | None:
        """Return a runner, or `None` where the binary is not built; in CI (`CI` is set) that is an error.

        Raises:
            FileNotFoundError: the binary is missing and the environment variable `CI` is set.
        """
        if BINARY.exists():
            return cls()
        if os.environ.get("CI"):
            raise FileNotFoundError(f"{BINARY} is not built; see the docstring of {Path(__file__).name}")
        return None

    def run(self, model_path: str | os.PathLike[str], inputs: dict[str, Any], *, optimize: bool = True) -> list[Value]:
        """Return the outputs of a .rten or .onnx model in graph order, each in one of RTen's four types.

        An input is an array or, for a sequence, a list of arrays; int64 and bool become int32, float16 and float64
        become float32.

        Raises:
            RunnerError: the model was refused or failed, or the process died or took too long.
        """
        with tempfile.TemporaryDirectory(prefix="rten-runner-") as folder:
            files = {name: _saved(Path(folder), f"in_{i}", x) for i, (name, x) in enumerate(inputs.items())}
            model = os.fspath(model_path)
            answer = self.ask({"model": model, "out_dir": folder, "inputs": files, "optimize": optimize})
            return [_loaded(output["file"]) for output in answer["outputs"]]

    def ask(self, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to one request of the protocol described in `src/main.rs`.

        Raises:
            RunnerError: the answer is a failure, or there is none.
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
        """End the process; the next model starts another."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):  # what a dead process did not read cannot be flushed
                    pipe.close()

    def _started(self) -> subprocess.Popen[str]:
        if self._process is not None and self._process.poll() is not None:
            self.close()
        if self._process is None:
            self._process = subprocess.Popen(
                [self._binary, "--batch"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                encoding="utf-8",
            )
        return self._process


def _saved(folder: Path, stem: str, value: Any) -> str | list[str]:
    """Return the file that now holds an input, or one file an element for a sequence."""
    if isinstance(value, list):
        return [str(_saved(folder, f"{stem}_{i}", element)) for i, element in enumerate(value)]
    path = folder / f"{stem}.npy"
    np.save(path, np.asarray(value, order="C"))
    return str(path)


def _loaded(file: str | list[str]) -> Value:
    return [np.load(path) for path in file] if isinstance(file, list) else np.load(file)

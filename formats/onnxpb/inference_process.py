"""The process in which onnx infers shapes: `inference` starts it, asks it, and survives it.

onnx computes in C++, without a limit: a model of 1 kB can take all memory, never end, or end the process. So it gets
a process of its own, with limits of memory and processor time for each request. Where the system has no such limits
(Windows), the process is the only one.

A request is a line with four numbers, and the model: its bytes, whether the inference is strict, whether it follows
data, and the bytes of memory that it may take. An answer is a line with a word and a number of bytes, and these bytes:
`model`, or the text of an `error`; `memory` if the request needs more of it.
"""

from __future__ import annotations

import sys
from typing import Any, BinaryIO

SECONDS = 20.0  # of processor time that a request may take
SECONDS_PER_BYTE = 20e-6
KNOWN_TWICE = "already exists"  # what onnx says of a call of a function in a subgraph, when it follows data


def main() -> None:
    """Answer requests from stdin until it ends."""
    requests, answers = sys.stdin.buffer, sys.stdout.buffer
    try:
        from onnx import shape_inference
    except ImportError as error:
        _answer(answers, "missing", str(error).encode())
        return
    _answer(answers, "ready", b"")
    while line := requests.readline():
        nbytes, strict, follows_data, memory = map(int, line.split())
        data = requests.read(nbytes)
        _limit(nbytes, memory)
        try:
            model = _inferred(shape_inference, data, strict=bool(strict), follows_data=bool(follows_data))
        except MemoryError:
            _answer(answers, "memory", b"")
        except Exception as error:
            _answer(answers, "error", str(error).encode("utf-8", "replace"))
        else:
            _answer(answers, "model", model)


def _inferred(shape_inference: Any, data: bytes, *, strict: bool, follows_data: bool) -> bytes:
    try:
        model = shape_inference.infer_shapes(data, strict_mode=strict, data_prop=follows_data)
    except Exception as error:
        if KNOWN_TWICE not in str(error):
            raise
        model = shape_inference.infer_shapes(data, strict_mode=strict)
    return model if isinstance(model, bytes) else model.SerializeToString()


def _limit(nbytes: int, memory: int) -> None:
    """Limit what the next request takes, beyond what the process has taken so far."""
    try:
        import resource
    except ImportError:  # Windows
        return
    used = resource.getrusage(resource.RUSAGE_SELF)
    seconds = used.ru_utime + used.ru_stime + SECONDS + SECONDS_PER_BYTE * nbytes
    for kind, most in ((resource.RLIMIT_CPU, int(seconds) + 1), (resource.RLIMIT_DATA, memory)):
        _, hard = resource.getrlimit(kind)
        resource.setrlimit(kind, (most if hard == resource.RLIM_INFINITY else min(most, hard), hard))


def _answer(answers: BinaryIO, word: str, data: bytes) -> None:
    answers.write(b"%s %d\n" % (word.encode(), len(data)))
    answers.write(data)
    answers.flush()

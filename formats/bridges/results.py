"""What two models compute of the same inputs in onnxruntime, compared output by output.

onnxruntime is native code: a model may end the process that runs it, or never end. So it gets a process of its own,
with a limit of processor time where the system has one (all but Windows), which is asked once.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from formats.errors import FormatError, MissingPackageError, OptionError, UnsupportedError
from formats.extras import needed
from formats.ir.dtypes import BY_NAME
from formats.verbs.report import OutputDifference

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Feed = Mapping[str, Any]

SECONDS: Final = 900  # of processor time for both models
OPEN_DIMS: Final = (4, 1)  # the sizes that open dims get, until the first model runs
SEED: Final = 0
PROGRAM: Final = "import sys; sys.path[:] = sys.argv[1:]; from formats.bridges.results import main; main()"


def compared_results(first: Path, second: Path, inputs: Path | None) -> tuple[OutputDifference, ...]:
    """How the outputs of two models differ for the inputs in an .npz file, or for random ones.

    Raises: MissingPackageError if onnxruntime is not installed; UnsupportedError if a model does not run; OptionError
    for inputs that do not fit.
    """
    question = {"paths": [os.fspath(path) for path in (first, second)], "inputs": inputs and os.fspath(inputs)}
    try:
        done = subprocess.run(  # noqa: S603 - this Python
            [sys.executable, "-I", "-c", PROGRAM, *filter(None, sys.path)],
            input=json.dumps(question).encode(),
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
        answer = json.loads(done.stdout)
    except (ValueError, subprocess.TimeoutExpired):
        raise UnsupportedError(f"onnxruntime did not run both models in {SECONDS} seconds, or has crashed") from None
    if (error := answer.get("error")) is not None:
        kinds = {each.__name__: each for each in (MissingPackageError, OptionError)}
        raise kinds.get(answer["kind"], UnsupportedError)(error)
    return tuple(OutputDifference(*difference) for difference in answer["differences"])


def main() -> None:
    """Answer the question from stdin, in a process of its own."""
    _limit()
    question = json.load(sys.stdin)
    try:
        first, second = question["paths"]
        answer: dict[str, Any] = {"differences": [*differences(first, second, question["inputs"])]}
    except Exception as error:
        answer = {
            "kind": type(error).__name__,
            "error": error.message if isinstance(error, FormatError) else str(error),
        }
    json.dump(answer, sys.stdout)


def _limit() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    _, hard = resource.getrlimit(resource.RLIMIT_CPU)
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS if hard == resource.RLIM_INFINITY else min(SECONDS, hard), hard))


def differences(first: str, second: str, inputs: str | None) -> Iterator[OutputDifference]:
    """The largest difference of each output; the models are loaded one after the other."""
    import numpy

    feed: Feed | None = None
    if inputs is not None:
        try:
            with numpy.load(inputs, allow_pickle=False) as arrays:
                feed = {name: arrays[name] for name in arrays.files}
        except Exception:  # of numpy or of zipfile, by what is wrong
            raise OptionError(f"{inputs} is no .npz file with arrays of numbers or texts") from None
    feed, wanted = _run(first, feed)
    _, found = _run(second, feed)
    for (name, mine), theirs in zip(wanted.items(), found.values(), strict=False):
        yield _difference(name, mine, theirs)


def _difference(name: str, mine: Any, theirs: Any) -> OutputDifference:
    import numpy

    if not (isinstance(mine, numpy.ndarray) and isinstance(theirs, numpy.ndarray)):
        return OutputDifference(name, 0.0, 0.0, "is no tensor")
    if mine.shape != theirs.shape:
        return OutputDifference(name, None, None, f"has dims {[*theirs.shape]} instead of {[*mine.shape]}")
    if mine.dtype.kind not in "fiub":
        return OutputDifference(name, None, None, "is the same" if (mine == theirs).all() else "differs")
    one, other = mine.astype("float64"), theirs.astype("float64")
    if not numpy.array_equal(numpy.isnan(one), numpy.isnan(other)):
        return OutputDifference(name, None, None, "is not a number (NaN) at other places")
    same = (one == other) | numpy.isnan(one)
    largest = float(numpy.abs(one - other)[~same].max(initial=0))
    magnitude = float(numpy.abs(one[numpy.isfinite(one)]).max(initial=0))
    words = f"differs by {largest:.2g} at most, where its largest number is {magnitude:.3g}"
    return OutputDifference(name, largest, magnitude, words if largest else "is the same")


def _run(path: str, feed: Feed | None) -> tuple[Feed, dict[str, Any]]:
    """The inputs, which are random ones if none are given, and what a model computes of them, by the output."""
    from formats.bridges.to_others import onnxruntime_session

    with needed("onnxruntime", "checks of results"):
        import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    names = []
    try:
        session = onnxruntime_session(path, providers=["CPUExecutionProvider"])
        names = [output.name for output in session.get_outputs()]
    except FormatError:
        raise
    except Exception as error:
        raise UnsupportedError(f"onnxruntime does not load {path}: {_one_line(error)}") from None
    reason = ""
    for given in [feed] if feed is not None else (_random(session, size) for size in OPEN_DIMS):
        fitting = _fitting(session, given)
        try:
            results = session.run(None, fitting)
        except Exception as error:
            reason = reason or _one_line(error)
        else:
            return given, dict(zip(names, results, strict=True))
    more = "" if feed is not None else "; give a file with inputs that fit: `check_inputs`"
    raise UnsupportedError(f"onnxruntime does not run {path}: {reason}{more}")


def _dtype(input_: Any) -> str:
    """The numpy type of an input of a session."""
    row = BY_NAME.get(input_.type.removeprefix("tensor(").removesuffix(")").upper())
    if row is None or row.numpy_name == "bfloat16":
        raise UnsupportedError(
            f"the input {input_.name} has type {input_.type}, for which numpy has none; `keep_io_types` keeps float32"
        )
    return row.numpy_name


def _random(session: Any, size: int) -> Feed:
    """Random inputs: numbers around zero, indices of 0 and 1, and texts; open dims have a size."""
    import numpy

    random = numpy.random.default_rng(SEED)
    feed: dict[str, Any] = {}
    for each in session.get_inputs():
        dims = [dim if isinstance(dim, int) else size for dim in each.shape]
        dtype = numpy.dtype(_dtype(each))
        is_float = dtype.kind == "f"
        feed[each.name] = random.normal(size=dims) if is_float else random.integers(0, 2, dims)
        if dtype.kind == "O":
            feed[each.name] = numpy.full(dims, "a", dtype)
    return feed


def _fitting(session: Any, feed: Feed) -> Feed:
    """The inputs of a session in its types."""
    import numpy

    missing = [each.name for each in session.get_inputs() if each.name not in feed]
    if missing:
        raise OptionError(f"`check_inputs` has no {missing[0]!r:.80}, an input of the model")
    return {each.name: numpy.asarray(feed[each.name]).astype(_dtype(each)) for each in session.get_inputs()}


def _one_line(error: Exception) -> str:
    """What onnxruntime says, without its kinds of errors and the places in its source."""
    text = " ".join(str(error).split())
    text = re.sub(r"^\[ONNXRuntimeError\] : \d+ : \w+ : |\S+\.(cc|h):\d+ (\S+ )?", "", text)
    return text[:200]

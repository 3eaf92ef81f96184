"""What two models compute of the same inputs in onnxruntime, compared output by output.

onnxruntime is native code: a model may end the process that runs it, take all memory, or never end. So it gets a
process of its own, with limits.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import suppress
from functools import partial
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from formats.editing.weight_files import NPZ, read_weights
from formats.errors import FormatError, MissingPackageError, OptionError, UnsupportedError
from formats.extras import needed
from formats.ir.dtypes import BY_NAME
from formats.onnxpb.limited_process import CHECKS, LimitedProcess, serve
from formats.verbs.report import OutputDifference
from formats.verbs.steps import opening

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    Feed = Mapping[str, Any]

OPEN_DIMS: Final = (4, 1)  # the sizes that open dims get, until the first model runs
MOST_DIMS: Final = 32  # of random inputs; older releases of numpy have no more
SEED: Final = 0


class _Input(NamedTuple):
    """An input of a model: its numpy type, and its dims, of which open ones are no integers."""

    dtype: str
    shape: Sequence[Any]


def compared_results(first: Path, second: Path, inputs: Path | None) -> tuple[OutputDifference, ...]:
    """How the outputs of two models differ for the inputs in an .npz file, or for random ones.

    Raises: MissingPackageError if onnxruntime is not installed; UnsupportedError if a model does not run; OptionError
    for inputs that do not fit.
    """
    paths = [os.fspath(first), os.fspath(second), inputs and os.fspath(inputs)]
    nbytes = _nbytes_of_weights(first) + _nbytes_of_weights(second)
    try:
        word, data = _PROCESS.ask(json.dumps(paths).encode(), nbytes=nbytes)
    finally:
        _PROCESS.end()
    if word in ("memory", "ended"):
        raise UnsupportedError(
            f"onnxruntime did not run both models in {CHECKS.time(nbytes):.0f} seconds of processor time and "
            f"{CHECKS.memory(nbytes) >> 20:,} MiB of memory, or has crashed"
        )
    answer = json.loads(data)
    if word != "differences":
        kinds = {each.__name__: each for each in (MissingPackageError, OptionError)}
        raise kinds.get(word, UnsupportedError)(answer)
    return tuple(OutputDifference(*difference) for difference in answer)


def _nbytes_of_weights(path: Path) -> int:
    """How many bytes the weights of a model have; 0 if it cannot be read, of which the process says why."""
    nbytes = 0
    with suppress(FormatError, OSError):
        for _, tensor in opening.load(path).tensors():
            with suppress(FormatError):  # texts
                nbytes += tensor.source().nbytes
    return nbytes


def new_process() -> LimitedProcess:
    """A process that runs two models."""
    return LimitedProcess("formats.bridges.results", partial(needed, "onnxruntime", "checks of results"), CHECKS)


_PROCESS = new_process()


# In the process


def main() -> None:
    """Answer requests until stdin ends."""
    serve(_begin)


def _begin() -> Callable[[bytes, list[int]], tuple[str, bytes]]:
    import onnxruntime

    onnxruntime.set_default_logger_severity(4)
    return lambda data, _: _answer(*json.loads(data))


def _answer(first: str, second: str, inputs: str | None) -> tuple[str, bytes]:
    """The differences, or the kind of an error and its text, in JSON."""
    try:
        return "differences", json.dumps([*differences(first, second, inputs)]).encode()
    except MemoryError:
        raise
    except OSError as error:
        return type(error).__name__, json.dumps(f"{error.filename}: {error.strerror}").encode()
    except Exception as error:
        return type(error).__name__, json.dumps(str(error)).encode()


def differences(first: str, second: str, inputs: str | None) -> Iterator[OutputDifference]:
    """The largest difference of each output; the models are loaded one after the other."""
    if inputs is None:
        mine, theirs = (_inputs(path) for path in (first, second))
        feeds = [_random(mine, theirs, size) for size in OPEN_DIMS]
        advice = "; give a file with inputs that fit: `check_inputs`"
    else:
        feeds, advice = [_given(Path(inputs))], ""
    feed, wanted = _run(first, feeds, advice)
    _, found = _run(second, [feed], advice)
    if not wanted.keys() & found.keys() and len(wanted) == len(found):  # all are renamed
        found = dict(zip(wanted, found.values(), strict=True))
    for name in wanted | found:
        if name in wanted and name in found:
            yield _difference(name, wanted[name], found[name])
        else:
            yield OutputDifference(name, None, None, "is not in the other model")


def _given(path: Path) -> Feed:
    """The arrays in an .npz file. Raises: OptionError if it is none."""
    if path.suffix.lower() != NPZ:
        raise OptionError(f"{path} is no {NPZ} file")
    try:
        return {name: tensor.numpy() for name, tensor in read_weights(path).items()}
    except FormatError as error:
        raise OptionError(str(error)) from None
    except OSError as error:
        raise OptionError(f"{path}: {error.strerror}") from None


def _difference(name: str, mine: Any, theirs: Any) -> OutputDifference:
    import numpy

    if isinstance(mine, list) and isinstance(theirs, list):
        return OutputDifference(name, None, None, _difference_of_sequences(mine, theirs))
    if not (isinstance(mine, numpy.ndarray) and isinstance(theirs, numpy.ndarray)):
        return OutputDifference(name, None, None, "is no tensor, so it is not compared")
    if mine.shape != theirs.shape:
        return OutputDifference(name, None, None, f"has dims {[*theirs.shape]} instead of {[*mine.shape]}")
    kinds = {mine.dtype.kind, theirs.dtype.kind}
    if not kinds <= {*"fiub"}:
        return OutputDifference(name, None, None, "is the same" if (mine == theirs).all() else "differs")
    exact = "float64" if "f" in kinds else "object"  # the integers of Python: float64 does not hold all of int64
    one, other = mine.ravel().astype(exact), theirs.ravel().astype(exact)
    is_nan = one != one  # numpy.isnan is not for objects
    if not numpy.array_equal(is_nan, other != other):
        return OutputDifference(name, None, None, "is not a number (NaN) at other places")
    same = (one == other) | is_nan
    largest = float(numpy.abs(one - other)[~same].max(initial=0))
    magnitude = float(numpy.abs(one[abs(one) < numpy.inf]).max(initial=0))
    words = f"differs by {largest:.2g} at most, where its largest number is {magnitude:.3g}"
    return OutputDifference(name, largest, magnitude, words if largest else "is the same")


def _difference_of_sequences(mine: list[Any], theirs: list[Any]) -> str:
    """How two sequences differ: in their lengths, or in the first element that differs."""
    if len(mine) != len(theirs):
        return f"has {len(theirs)} elements instead of {len(mine)}"
    details = [_difference("", *pair).detail for pair in zip(mine, theirs, strict=True)]
    differing = (f"has an element {n} that {words}" for n, words in enumerate(details) if words != "is the same")
    return next(differing, "is the same")


def _session(path: str) -> Any:
    from formats.bridges.to_others import onnxruntime_session

    try:
        return onnxruntime_session(path, providers=["CPUExecutionProvider"])
    except (FormatError, OSError, MemoryError):
        raise
    except Exception as error:
        raise UnsupportedError(f"onnxruntime does not load {path}: {_one_line(error)}") from None


def _run(path: str, feeds: Iterable[Feed], advice: str) -> tuple[Feed, dict[str, Any]]:
    """The first inputs with which a model runs, and what it computes of them, by the output."""
    session = _session(path)
    names = [output.name for output in session.get_outputs()]
    reason = ""
    for given in feeds:
        fitting = _fitting(session, given)
        try:
            results = session.run(None, fitting)
        except MemoryError:
            raise
        except Exception as error:
            reason = reason or _one_line(error)
        else:
            return given, dict(zip(names, results, strict=True))
    raise UnsupportedError(f"onnxruntime does not run {path}: {reason}{advice}")


def _dtype(input_: Any) -> str:
    """The numpy type of an input of a session."""
    row = BY_NAME.get(input_.type.removeprefix("tensor(").removesuffix(")").upper())
    if row is None or row.numpy_name == "bfloat16":
        raise UnsupportedError(
            f"the input {input_.name} has type {input_.type}, for which numpy has none; `keep_io_types` keeps float32"
        )
    return row.numpy_name


def _inputs(path: str) -> dict[str, _Input]:
    """The inputs of a model, by their names."""
    session = _session(path)  # which the inputs need
    return {each.name: _Input(_dtype(each), each.shape) for each in session.get_inputs()}


def _random(mine: dict[str, _Input], theirs: dict[str, _Input], size: int) -> Feed:
    """Random inputs for two models: numbers around zero, indices of 0 and 1, and texts.

    Dims that both models leave open have a size. Inputs of one model only are paired by position, as renamed ones.
    """
    import numpy

    renamed = [[name for name in inputs if name not in others] for inputs, others in ((mine, theirs), (theirs, mine))]
    old_names: dict[str, str] = {}
    if len(renamed[0]) == len(renamed[1]):
        old_names = dict(zip(*reversed(renamed), strict=True))
    partners: dict[str, _Input] = {old_names.get(name, name): each for name, each in theirs.items()}
    random = numpy.random.default_rng(SEED)
    feed: dict[str, Any] = {}
    for name, each in (partners | mine).items():
        partner = partners.get(name, each)
        dims = [dim if isinstance(dim, int) else size for dim in each.shape]
        if len(partner.shape) == len(dims):
            pairs = zip(each.shape, partner.shape, strict=True)
            dims = [next((dim for dim in pair if isinstance(dim, int)), size) for pair in pairs]
        dtype = numpy.dtype(each.dtype)
        if len(dims) > MOST_DIMS or 8 * prod(dims) > CHECKS.memory_bytes:
            reason = f"the input {name!r:.80} is too large for random numbers"
            raise UnsupportedError(f"{reason}; give a file with inputs that fit: `check_inputs`")
        is_float = dtype.kind == "f"
        feed[name] = random.normal(size=dims) if is_float else random.integers(0, 2, dims)
        if dtype.kind == "O":
            feed[name] = numpy.full(dims, "a", dtype)
    return feed | {new: feed[old] for new, old in old_names.items()}


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

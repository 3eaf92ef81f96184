"""Models made by others: the test models in the installed `onnx` package.

Nothing here imports `onnx` before a function is called, and each function does its work once per process.
"""

from __future__ import annotations

import contextlib
import functools
import io
import warnings
from pathlib import Path
from typing import Any, NamedTuple


class BackendCase(NamedTuple):
    """A model of one node with its inputs and expected outputs.

    Values are listed by name, in the order of the graph's inputs and outputs. A value is an array, a list of arrays for
    a sequence, or None for an empty optional. Types that numpy lacks use ml_dtypes.
    """

    id: str
    model: bytes
    inputs: dict[str, Any]
    outputs: dict[str, Any]


@functools.cache
def backend_cases() -> list[BackendCase]:
    """Return the operator tests of `onnx`, about 1,900, sorted by id.

    The first call takes several seconds, mostly in the package's reference implementation of pooling. Random inputs are
    the same in every process.
    """
    import numpy as np

    state = np.random.get_state()
    np.random.seed(0)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            from onnx.backend.test.case.node import collect_testcases

            collected = collect_testcases(None)
    finally:
        np.random.set_state(state)
    return sorted((_backend_case(case) for case in collected), key=lambda case: case.id)


@functools.cache
def backend_files() -> list[tuple[str, Path]]:
    """Return the .onnx files of the `onnx` package, sorted; the id of each is its folder's path below the data.

    They were written by PyTorch and by many versions of `onnx`, in IR versions 3 to 7.
    """
    import onnx

    data = Path(onnx.__file__).parent / "backend/test/data"
    files = sorted(data.rglob("*.onnx"))
    return [(path.relative_to(data).as_posix().removesuffix("/model.onnx"), path) for path in files]


def _backend_case(case: Any) -> BackendCase:
    graph = case.model.graph
    ((inputs, outputs),) = case.data_sets
    return BackendCase(
        case.name,
        case.model.SerializeToString(),
        {value.name: _value(given) for value, given in zip(graph.input, inputs, strict=True)},
        {value.name: _value(wanted) for value, wanted in zip(graph.output, outputs, strict=True)},
    )


def _value(given: Any) -> Any:
    """Return a value of a case as an array, a list of arrays or None."""
    import numpy as np
    from onnx import TensorProto, numpy_helper

    if isinstance(given, TensorProto):
        return numpy_helper.to_array(given)
    return given if given is None or isinstance(given, list) else np.asarray(given)

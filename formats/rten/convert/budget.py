"""How much a conversion for RTen may make: elements of constants, and nodes.

A number in a file must not become the length of a loop or of a list without a limit: a file of 200 bytes could then
keep a conversion busy for ever. So there is one budget for each conversion. The functions that make elements and nodes
count there; rules of operators make arrays with the functions of this module, and no longer loop than `steps` allows.
The budget is a fixed allowance, and more for larger models.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from functools import wraps
from math import prod
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from formats.errors import FormatError
from formats.rten.convert.refusal import Refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np

    from formats.ir.model import Model, Tensor

P = ParamSpec("P")
R = TypeVar("R")

ELEMENTS = 1 << 24
ELEMENTS_PER_BYTE = 16  # of the weights of the model
NODES = 1 << 15
NODES_PER_NODE = 64  # of the model
ELEMENTS_PER_STEP = 64  # what Python does takes longer than what numpy does


class Budget:
    """What is left for a conversion. `size` returns the nodes of the model and its bytes; it may take long."""

    def __init__(self, size: Callable[[], tuple[int, int]]) -> None:
        self._size: Callable[[], tuple[int, int]] | None = size
        self._elements = ELEMENTS
        self._nodes = NODES

    def take(self, elements: int, nodes: int, cost: int = 1) -> None:
        """Count what is about to be made; an element costs as much as `cost` of them.

        Raises: Refused if that is too much.
        """
        self._elements -= elements * cost
        self._nodes -= nodes
        if min(self._elements, self._nodes) < 0 and self._size is not None:
            model_nodes, model_bytes = self._size()
            self._size = None
            self._elements += ELEMENTS_PER_BYTE * model_bytes
            self._nodes += NODES_PER_NODE * model_nodes
        if min(self._elements, self._nodes) < 0:
            self._elements, self._nodes = self._elements + elements * cost, self._nodes + nodes
            word, count, remaining = (
                ("nodes", nodes, self._nodes) if nodes else ("elements", elements, self._elements // cost)
            )
            reason = f"needs {count:,} {word}, but for a model of this size, only {remaining:,} more may be made"
            raise Refused(reason, "change the sizes in the model")


_CURRENT: ContextVar[Budget | None] = ContextVar("budget", default=None)


@contextmanager
def budget_of(model: Model) -> Iterator[None]:
    """A context in which one budget counts, that of the conversion of a model; an outer one goes on."""
    if _CURRENT.get() is not None:
        yield
        return
    token = _CURRENT.set(Budget(lambda: _size_of(model)))
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _size_of(model: Model) -> tuple[int, int]:
    """The nodes of a model, and the bytes of its tensors."""
    from formats.ir import walk

    nodes = sum(len(graph.node) for _, graph in walk.graphs(model))
    return nodes, sum(_nbytes_of(tensor) for _, tensor in walk.tensors(model))


def _nbytes_of(tensor: Tensor) -> int:
    try:
        return tensor.source().nbytes
    except FormatError:  # of strings, or damaged
        return 0


def without_warnings(function: Callable[P, R]) -> Callable[P, R]:
    """A decorator for a function that computes with numbers of a model, of which numpy warns if they are hostile."""

    @wraps(function)
    def quiet(*args: P.args, **kwargs: P.kwargs) -> R:
        import numpy

        with numpy.errstate(all="ignore"):
            return function(*args, **kwargs)

    return quiet


def count_elements(*dims: int) -> None:
    """Count the elements of an array that is about to be made.

    Raises: Refused if they are too many.
    """
    count = max(prod(dims), 0)
    budget = _CURRENT.get()
    (Budget(lambda: (0, 0)) if budget is None else budget).take(count, 0)


def count_nodes(count: int) -> None:
    """Count nodes that are about to be made.

    Raises: Refused if they are too many.
    """
    budget = _CURRENT.get()
    if budget is not None:
        budget.take(0, count)


def steps(count: int) -> range:
    """The numbers from 0 to before `count`, for a loop.

    Raises: Refused if they are too many.
    """
    budget = _CURRENT.get()
    (Budget(lambda: (0, 0)) if budget is None else budget).take(max(count, 0), 0, ELEMENTS_PER_STEP)
    return range(count)


def as_list(values: Any) -> Any:
    """The values as a list or an array; a range, or the like, whose length is a number in the model, is counted.

    Raises: Refused if they are too many.
    """
    if isinstance(values, range):
        count_elements(range_length(values))
    return values if hasattr(values, "dtype") or isinstance(values, (int, float, complex)) else list(values)


def range_length(numbers: range) -> int:
    """The length of a range, which may be larger than `len` returns."""
    return max(0, -(-(numbers.stop - numbers.start) // numbers.step))


def zeros(dims: int | Sequence[int], dtype: Any = float) -> np.ndarray[Any, Any]:
    """An array of zeros."""
    import numpy

    count_elements(*((dims,) if isinstance(dims, int) else dims))
    return numpy.zeros(dims, dtype)


def full(dims: int | Sequence[int], value: Any, dtype: Any = None) -> np.ndarray[Any, Any]:
    """An array of equal elements."""
    import numpy

    count_elements(*((dims,) if isinstance(dims, int) else dims))
    return numpy.full(dims, value, dtype)


def arange(count: int, dtype: Any = None) -> np.ndarray[Any, Any]:
    """The numbers from 0 to before `count`."""
    import numpy

    count_elements(count)
    return numpy.arange(count, dtype=dtype)

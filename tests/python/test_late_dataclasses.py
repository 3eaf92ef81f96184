"""What `late_dataclasses` makes is what `dataclasses` makes, whatever is asked of it first."""

from __future__ import annotations

import copy
import dataclasses
import importlib
import inspect
import pickle
import pkgutil
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

import pytest

import formats
from formats.python import late_dataclasses

Python = Callable[..., subprocess.CompletedProcess[str]]

ARGUMENTS = ("", "()", "(frozen=True)", "(slots=True)", "(frozen=True, slots=True)", "(eq=False)", "(repr=False)")
ARGUMENTS += ("(frozen=True, slots=True, eq=False)", "(eq=False, repr=False)", "(frozen=True, kw_only=True)")
SOURCE = """
from __future__ import annotations
from typing import ClassVar
from {module} import dataclass, field

@dataclass{arguments}
class Point:
    kind: ClassVar[str] = "point"
    x: int
    y: int = field(default=2, metadata={{"unit": "m"}})
    names: {names} = {default}
    secret: str = field(default="s", repr=False)
    first: int = field(default=0, kw_only=False)

    def __post_init__(self) -> None:
        if self.x < 0:
            raise ValueError(self.x)

    @property
    def sum(self) -> int:
        return self.x + self.y

@dataclass{arguments}
class Solid(Point):
    z: int = 3
    y: int = 5
"""


def made(module: str, arguments: str) -> ModuleType:
    """A module with the classes, which can be pickled."""
    is_hashable = "frozen" in arguments
    found = ModuleType("solids")
    form = (
        {"names": "tuple", "default": "()"}
        if is_hashable
        else {"names": "list", "default": "field(default_factory=list)"}
    )
    sys.modules["solids"] = found
    exec(SOURCE.format(module=module, arguments=arguments, **form), vars(found))
    return found


def outcome(what: Callable[[], Any]) -> Any:
    """What a call returns, or the error that it raises."""
    try:
        return what()
    except Exception as error:
        return type(error), str(error)


def change(kind: Any, name: str) -> Any:
    """An object after an attempt to set and to delete an attribute."""
    point = kind(1)
    setattr(point, name, 7)
    before = getattr(point, name)
    delattr(point, name)
    return before, outcome(lambda: getattr(point, name))


ASKED: dict[str, Callable[[Any], Any]] = {
    "positional": lambda kind: repr(kind(1, 4)),
    "by name": lambda kind: repr(kind(y=4, x=1, secret="t")),
    "mixed": lambda kind: repr(kind(1, y=4)),
    "missing": lambda kind: kind(),
    "unknown": lambda kind: kind(1, w=2),
    "twice": lambda kind: kind(1, x=2),
    "too many": lambda kind: kind(*range(9)),
    "checked": lambda kind: kind(-1),
    "values": lambda kind: [getattr(kind(1), name) for name in ("x", "y", "names", "secret", "first", "sum", "kind")],
    "defaults": lambda kind: [
        outcome(lambda name=name: type(getattr(kind, name))) for name in ("y", "names", "secret")
    ],
    "equal": lambda kind: [kind(1) == kind(1), kind(1) == kind(2), kind(1) != kind(1), kind(1) == 1],
    "hash": lambda kind: len({kind(1), kind(1)}),
    "no hash": lambda kind: kind.__hash__ is None,
    "set": lambda kind: change(kind, "x"),
    "delete": lambda kind: delattr(kind(1), "x"),
    "fields": lambda kind: [
        (row.name, row.type, row.default, row.default_factory, row.repr, row.kw_only, dict(row.metadata))
        for row in dataclasses.fields(kind)
    ],
    "fields of an object": lambda kind: len(dataclasses.fields(kind(1))),
    "parameters": lambda kind: str(kind.__dataclass_params__).replace("slots=True", "slots=False"),
    "replace": lambda kind: repr(dataclasses.replace(kind(1), y=9)),
    "replace what is not there": lambda kind: dataclasses.replace(kind(1), w=9),
    "asdict": lambda kind: dataclasses.asdict(kind(1)),
    "is dataclass": lambda kind: [dataclasses.is_dataclass(kind), dataclasses.is_dataclass(kind(1))],
    "signature": lambda kind: str(inspect.signature(kind)),
    "match": lambda kind: kind.__match_args__,
    "slots": lambda kind: [hasattr(kind(1), "__dict__"), hasattr(vars(kind).get("x", vars(kind).get("z")), "__set__")],
    "pickle": lambda kind: [vars_of(pickle.loads(pickle.dumps(kind(1), protocol))) for protocol in range(2, 6)],
    "state": lambda kind: [in_order(kind(1).__reduce_ex__(2)[2]), outcome(lambda: type(kind.__getstate__))],
    "copy": lambda kind: [vars_of(copy.copy(kind(1))), vars_of(copy.deepcopy(kind(1)))],
    "names": lambda kind: [kind.__name__, kind.__qualname__, kind.__module__, kind.__init__.__name__],
}


def in_order(state: Any) -> Any:
    """A state that is pickled, with its names in order: Python 3.10 lists slots in the order of a set."""
    if isinstance(state, dict):
        return sorted(state.items())
    return [in_order(part) for part in state] if isinstance(state, (list, tuple)) else state


def vars_of(thing: Any) -> dict[str, Any]:
    """The values of all fields, of an object that nothing has been asked for yet."""
    return {name: getattr(thing, name) for name in ("x", "y", "names", "secret", "first")}


@pytest.mark.sample(3)
@pytest.mark.parametrize("asked", ASKED)
@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("name", ["Point", "Solid"])
def test_classes_are_those_of_the_standard_library(name: str, arguments: str, asked: str) -> None:
    """Each question has the answer of the standard library, asked first or after all others."""
    answers = []
    for module in ("dataclasses", "formats.python.late_dataclasses"):
        kind = getattr(made(module, arguments), name)
        first = outcome(lambda kind=kind: ASKED[asked](kind))
        for question in ASKED.values():
            outcome(lambda kind=kind, question=question: question(kind))
        last = outcome(lambda kind=kind: ASKED[asked](kind))
        answers += [re.sub("at 0x[0-9a-f]+", "", repr(answer)) for answer in (first, last)]
    assert len(set(answers)) == 1, answers


@pytest.mark.parametrize("slots", ["", ", slots=True"])
def test_nothing_can_be_added_to_a_frozen_object(slots: str) -> None:
    """An attribute that is no field cannot be set; with slots, some versions of `dataclasses` raise a TypeError."""
    point = made("formats.python.late_dataclasses", f"(frozen=True{slots})").Solid(1)
    for _ in range(2):
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'other'"):
            point.other = 7
        with pytest.raises(dataclasses.FrozenInstanceError, match="cannot delete field 'other'"):
            del point.other
        dataclasses.fields(point)


def test_many_objects_are_made_by_the_standard_library() -> None:
    """After some objects, `dataclasses` writes `__init__`, and nothing else changes."""
    kind = made("formats.python.late_dataclasses", "(frozen=True, slots=True)").Point
    points = [kind(number) for number in range(2 * late_dataclasses.FEW)]
    assert [point.x for point in points] == [*range(2 * late_dataclasses.FEW)]
    assert inspect.isfunction(vars(kind)["__init__"])
    assert points[0] == kind(0)
    assert hash(points[0]) == hash(kind(0))


def test_few_objects_need_no_standard_library(python: Python) -> None:
    """Objects of a class are made and copied with other values without an import of `dataclasses`."""
    code = (
        "import sys\n"
        "from formats import OnnxOptions\n"
        "from formats.python.late_dataclasses import replace\n"
        "print(replace(OnnxOptions(alignment='4K'), checksum=True).alignment, 'dataclasses' in sys.modules)\n"
        "OnnxOptions() == OnnxOptions()\n"
        "print('dataclasses' in sys.modules)"
    )
    assert "4096 False\nTrue\n" == python("-c", code).stdout


@pytest.mark.parametrize(
    "imports", ["import dataclasses", "import formats.options, dataclasses", "import formats.options"]
)
@pytest.mark.parametrize("module", ["dataclasses", "formats.python.late_dataclasses"])
def test_options_are_for_dataclasses_of_any_making(python: Python, imports: str, module: str) -> None:
    """A class of options of another package is one of the standard library, whatever was imported first."""
    code = (
        "from __future__ import annotations\n"
        f"{imports}\n"
        f"from {module} import dataclass\n"
        "from formats.options import SWITCH, count, option, rows_of, settle\n"
        "@dataclass(frozen=True, slots=True)\n"
        "class Options:\n"
        "    level: int = option(3, count(1, 9), 'Press that hard.', short='-l')\n"
        "    index: bool = option(False, SWITCH, 'Add an index.')\n"
        "    def __post_init__(self) -> None:\n"
        "        settle(self)\n"
        "print([(row.name, row.default, row.flags[0].names) for row in rows_of(Options)], Options(level=4))"
    )
    rows = "[('level', 3, ('-l', '--level')), ('index', False, ('--index',))]"
    assert f"{rows} Options(level=4, index=False)\n" == python("-c", code).stdout


def test_a_default_can_be_an_object_of_another_class(python: Python) -> None:
    """A class is made although its default value belongs to a class that is not made yet."""
    code = (
        "from __future__ import annotations\n"
        "from formats.python.late_dataclasses import dataclass\n"
        "@dataclass(frozen=True)\n"
        "class Inner:\n"
        "    x: int = 1\n"
        "@dataclass(frozen=True)\n"
        "class Outer:\n"
        "    inner: Inner = Inner()\n"
        "print(Outer())"
    )
    assert "Outer(inner=Inner(x=1))\n" == python("-c", code).stdout


def test_threads_find_whole_classes() -> None:
    """Threads that use a class for the first time at the same moment all find its methods."""
    for _ in range(20):
        kind = made("formats.python.late_dataclasses", "(frozen=True)").Point
        start = threading.Barrier(8)
        found: list[Any] = []

        def use(kind: Any = kind, start: threading.Barrier = start, found: list[Any] = found) -> None:
            start.wait()
            found.append(
                outcome(lambda: (kind(1) == kind(x=1), hash(kind(1)), repr(kind(1)), len(dataclasses.fields(kind))))
            )

        threads = [threading.Thread(target=use) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8
        assert len(set(found)) == 1
        assert found[0][0] is True


def test_all_classes_of_the_package_are_dataclasses() -> None:
    """Every class that is made late has the fields, and the signature, that its annotations name."""
    for module in pkgutil.walk_packages(formats.__path__, "formats."):
        if module.name != "formats.__main__":
            importlib.import_module(module.name)
    kinds = [kind for kind in late_dataclasses._late if kind.__module__.startswith("formats.")]
    assert len(kinds) > 80
    for kind in kinds:
        names = [field.name for field in dataclasses.fields(kind)]
        assert names == [field.name for field in late_dataclasses.fields_of(kind)]
        assert {*names} >= {
            name for name, text in vars(kind).get("__annotations__", {}).items() if "ClassVar" not in text
        }
        assert [*inspect.signature(kind).parameters] == names


def test_another_thread_may_import_dataclasses_meanwhile(python: Python) -> None:
    """A class that is made while another thread imports `dataclasses` waits until that module is whole."""
    done = python(
        "-c",
        """
from __future__ import annotations
import sys, threading, time
from importlib.machinery import PathFinder
from formats.python.late_dataclasses import dataclass, field

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "dataclasses":
            spec = PathFinder.find_spec(name)
            run = spec.loader.exec_module
            def slowly(module):
                begun.set()
                time.sleep(0.3)
                run(module)
            spec.loader.exec_module = slowly
            return spec

begun = threading.Event()
assert "dataclasses" not in sys.modules
sys.meta_path.insert(0, Slow())
threading.Thread(target=lambda: __import__("dataclasses")).start()
begun.wait()

@dataclass(frozen=True, slots=True)
class Pair:
    first: int
    second: list = field(default_factory=list)

assert (Pair(1).first, Pair(1).second) == (1, [])
""",
    )
    assert (0, "") == (done.returncode, done.stderr)

"""Our message classes, `load`, `save` and similar functions in the place of those of `onnx`, for a whole process.

    import formats.onnxpb

    formats.onnxpb.install()  # or: with formats.onnxpb.install(): ...
    import a_program_that_imports_onnx

All modules that are imported get them, wherever one of their names is a class or function of `onnx`. Modules that are
imported later find them in `onnx`. Out of reach is what a program stored elsewhere before: in an object, a tuple, a
default of a parameter or a name inside a function. So install before the program is imported.

Spec: the `onnx` package (1.17 to 1.23).
"""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

from formats.extras import needed
from formats.onnx_compat import io
from formats.onnx_compat.protos import classes
from formats.onnx_compat.protos.containers import RepeatedMessages, RepeatedNumbers, RepeatedScalars
from formats.onnx_compat.protos.message import ProtoMessage
from formats.onnx_compat.swap.modules import ONNX, names_of_classes
from formats.onnxpb.unknown_fields import UnknownFieldSet

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType, TracebackType
    from typing import Self

OWN = "formats"
# The classes of protobuf's native code that programs ask `isinstance` about, each with ours.
NATIVE = (
    ("Message", (ProtoMessage,)),
    ("RepeatedCompositeContainer", (RepeatedMessages,)),
    ("RepeatedScalarContainer", (RepeatedScalars, RepeatedNumbers)),
)
_lock = RLock()
_installed: list[Installation] = []


class Installation:
    """Our classes and functions inside `onnx`, until `undo` or the end of its context."""

    def __init__(self) -> None:
        self._before: list[tuple[dict[str, Any], str, Any]] = []
        self._own: set[tuple[int, str]] = set()  # names that were ours before
        self._known: set[int] = set()
        self._pairs: list[tuple[Any, Any]] = []
        self._put()

    def _put(self) -> None:
        """Replace what is theirs in all modules."""
        self._pairs = _pairs()
        ours = {id(theirs): own for theirs, own in self._pairs}
        own = {id(own) for _, own in self._pairs}
        for module in _others():
            self._known.add(id(module))
            for name, value in list(module.items()):
                if id(value) in own:
                    self._own.add((id(module), name))
                elif id(value) in ours:
                    self._before.append((module, name, value))
                    module[name] = ours[id(value)]

    def undo(self) -> None:
        """Put back what was there, also into the modules of `onnx` that were imported since; once is enough.

        A program that was imported since, and has a name of `onnx` as its own, keeps ours under that name.
        """
        with _lock:
            if self not in _installed:
                return
            while _installed[-1] is not self:  # those after this one replaced nothing
                _installed.pop()
            _installed.pop()
            own = {id(own): theirs for theirs, own in self._pairs}
            for module, name, value in self._before:
                if id(module.get(name)) in own:
                    module[name] = value
            if self._before:
                for module in _others():
                    if id(module) in self._known or _is_of_onnx(module):
                        self._give_back(module, own)

    def _give_back(self, module: dict[str, Any], theirs: dict[int, Any]) -> None:
        """Put theirs where a module got ours since."""
        for name, value in list(module.items()):
            if id(value) in theirs and (id(module), name) not in self._own:
                module[name] = theirs[id(value)]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.undo()


def install() -> Installation:
    """Put our message classes, `load`, `save` and similar functions into `onnx`, for all programs in this process.

    Returns what undoes it, which is also a context. Functions of `onnx` in native code get bytes, as they always do.

    Raises: MissingPackageError if `onnx` is not installed.
    """
    with _lock:
        _installed.append(Installation())
        return _installed[-1]


def uninstall() -> None:
    """Undo all that `install` did."""
    with _lock:
        while _installed:
            _installed[0].undo()


def _pairs() -> list[tuple[Any, Any]]:
    """What is of `onnx`, each with ours."""
    with needed("onnx", "programs over formats.onnxpb.install"):
        onnx = import_module("onnx")
        modules = [import_module(f"onnx.{name}") for name in ("onnx_ml_pb2", "onnx_data_pb2")]
    found: list[tuple[Any, Any]] = []
    for name, own in names_of_classes(classes).items():
        found += [(vars(module)[name], own) for module in modules if name in vars(module) and not isinstance(own, int)]
    found += [(getattr(onnx, name), getattr(io, name)) for name in io.__all__ if hasattr(onnx, name)]
    with needed("google.protobuf", "programs over formats.onnxpb.install"):
        native = import_module("google.protobuf.unknown_fields").UnknownFieldSet
    if native.__module__ != __name__:  # as it is if it was replaced already
        found.append((native, _for_both(native)))
    with suppress(ImportError):  # protobuf without its native code
        natives = import_module("google._upb._message")
        kinds = [(vars(natives)[name], own) for name, own in NATIVE]
        found += [(kind, _kind_of_both(kind, own)) for kind, own in kinds if not isinstance(kind, _KindOfBoth)]
    return [(theirs, own) for theirs, own in found if theirs is not own]


def _for_both(native: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Protobuf's class for unknown fields, whose native code reads no messages of ours, as a function for both."""

    def unknown_field_set(message: Any) -> Any:
        return UnknownFieldSet(message) if isinstance(message, ProtoMessage) else native(message)

    unknown_field_set.__module__ = __name__
    return unknown_field_set


class _KindOfBoth(type):
    """The class of a class whose instances are those of protobuf's native class, and of ours."""

    kinds: tuple[type[Any], ...]

    def __instancecheck__(cls, value: Any) -> bool:
        return isinstance(value, cls.kinds)

    def __subclasscheck__(cls, other: type[Any]) -> bool:
        return issubclass(other, cls.kinds)


def _kind_of_both(native: type[Any], own: tuple[type[Any], ...]) -> type[Any]:
    """A class for `isinstance` in the place of a native one."""
    return _KindOfBoth(native.__name__, (), {"__module__": native.__module__, "kinds": (native, *own)})


def _others() -> list[dict[str, Any]]:
    """The names of every module that is not ours."""
    modules: list[ModuleType] = [module for module in list(sys.modules.values()) if module is not None]
    return [
        names
        for module in modules
        if isinstance(names := getattr(module, "__dict__", None), dict)
        and str(names.get("__name__", "")).partition(".")[0] != OWN
    ]


def _is_of_onnx(names: dict[str, Any]) -> bool:
    return str(names.get("__name__", "")).partition(".")[0] == ONNX

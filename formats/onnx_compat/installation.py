"""The modules of `onnx` over our message classes, and these in the place of those of `onnx` for a whole process.

    from formats.onnxpb import checker, helper

Such a module is the code of the installed `onnx`, executed once more, in a module with a name of ours. Its own imports
of `onnx` lead to `formats.onnxpb`, so that it makes our messages and uses our `load` and `save`. The modules of `onnx`
itself do not change. `defs` and the native code are those of `onnx`: the messages that they make are of its classes.

    import formats.onnxpb

    formats.onnxpb.install()  # or: with formats.onnxpb.install(): ...
    import a_program_that_imports_onnx

All modules that are imported get our classes, `load`, `save` and similar functions, wherever one of their names is a
class or function of `onnx`. Modules that are imported later find them in `onnx`. Out of reach is what a program stored
elsewhere before: in an object, a tuple, a default of a parameter or a name inside a function. So install before the
program is imported.

Spec: the `onnx` package (1.17 to 1.23).
"""

from __future__ import annotations

import builtins
import sys
from contextlib import suppress
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec, spec_from_loader
from threading import RLock
from types import ModuleType
from typing import TYPE_CHECKING, Any

from formats.extras import needed
from formats.ir import NEWEST_IR_VERSION
from formats.onnx_compat import io, references
from formats.onnx_compat.protos import classes
from formats.onnx_compat.protos.containers import RepeatedMessages, RepeatedNumbers, RepeatedScalars
from formats.onnx_compat.protos.descriptor import FILE
from formats.onnx_compat.protos.message import ProtoMessage
from formats.onnxpb.unknown_fields import UnknownFieldSet
from formats.onnxpb.wire.schema import ENUMS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Self

ROOT, ONNX = "formats.onnxpb", "onnx"
OWN_EXTERNAL_DATA = "_external_data_helper_of_onnx"
OF_CLASSES = ("onnx_ml_pb2", "onnx_data_pb2")  # modules that protobuf generated
AS_THEY_ARE = (
    *("defs", "gen_proto", "onnx_cpp2py_export", "onnx_operators_ml_pb2", "onnx_operators_pb", "version"),
    "tools",
)
NAMES = ("__version__", "ONNX_ML", "OperatorProto", "OperatorSetProto")  # of `onnx`, which are not modules

# Functions of `onnx` that get references in place of the weights of a large model, each in its module.
OF_ANY_SIZE = {
    "checker": ("check_model", references.checks_any_size),
    "shape_inference": ("infer_shapes", references.infers_any_size),
}

OWN = "formats"
# The classes of protobuf's native code that programs ask `isinstance` about, each with ours.
NATIVE = (
    ("Message", (ProtoMessage,)),
    ("RepeatedCompositeContainer", (RepeatedMessages,)),
    ("RepeatedScalarContainer", (RepeatedScalars, RepeatedNumbers)),
)
_lock = RLock()
_installed: list[Installation] = []


# Modules of `onnx` over our classes


def of_onnx(name: str) -> Any:
    """A name of `onnx` that `formats.onnxpb` has if `onnx` is installed.

    Raises: MissingPackageError if it is not installed; AttributeError if this release of it does not have the name.
    """
    with needed("onnx", f"uses of formats.onnxpb.{name}"):
        onnx = import_module("onnx")
    if name in NAMES:
        return getattr(onnx, name)
    try:
        return import_module(f"{ROOT}.{name}")
    except ModuleNotFoundError as error:
        if error.name != f"{ROOT}.{name}":
            raise
    raise AttributeError(f"this release of onnx ({onnx.__version__}) has no module {name!r}")


def ir_version() -> int:
    """The newest IR version that the installed release of `onnx` reads, or the newest one if it is not installed.

    Its checker refuses models in newer ones.
    """
    try:
        return int(import_module("onnx").IR_VERSION)
    except ImportError:
        return NEWEST_IR_VERSION


def module_spec(fullname: str) -> ModuleSpec | None:
    """How to import a module of `formats.onnxpb` that is one of `onnx`; `None` if there is none.

    Raises: MissingPackageError if `onnx` is not installed.
    """
    inner = fullname[len(ROOT) + 1 :]
    top = inner.partition(".")[0]
    with needed("onnx", f"the functions of {fullname}"):
        onnx = import_module("onnx")
    if top in OF_CLASSES:
        return ModuleSpec(fullname, _Classes())
    theirs = f"{ONNX}.{inner.replace(OWN_EXTERNAL_DATA, 'external_data_helper')}"
    if top in AS_THEY_ARE:
        return ModuleSpec(fullname, _AsItIs(theirs))
    outer = theirs.rpartition(".")[0]
    path = onnx.__path__ if outer == ONNX else getattr(find_spec(outer), "submodule_search_locations", None)
    spec_of_onnx = PathFinder.find_spec(theirs, path)
    if spec_of_onnx is None or spec_of_onnx.origin is None:
        return None
    spec = spec_from_loader(fullname, _Copy(fullname, spec_of_onnx.origin))
    if spec is not None and spec_of_onnx.submodule_search_locations is not None:
        spec.submodule_search_locations = []  # so that only `module_spec` finds what is in this package
    return spec


class _Classes(Loader):
    """A loader of the modules that protobuf generated for `onnx`: they have our classes."""

    def create_module(self, spec: ModuleSpec) -> None:
        """A new module."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the classes into the module."""
        vars(module).update(_names_of_classes(), DESCRIPTOR=FILE, IR_VERSION=ir_version())


def _names_of_classes() -> dict[str, Any]:
    """The message classes, enums and constants, by the names that they have in `onnx`."""
    top = [name for name in classes.CLASSES if "." not in name]
    for name in ENUMS:
        top += [name, *ENUMS[name]] if "." not in name else []
    return {name: getattr(classes, name) for name in top}


class _AsItIs(Loader):
    """A loader that gives a module of `onnx` itself under a name of ours."""

    def __init__(self, theirs: str) -> None:
        self.theirs = theirs

    def create_module(self, spec: ModuleSpec) -> None:
        """A module that is not used, because the import would change the module of `onnx`."""

    def exec_module(self, module: ModuleType) -> None:
        """Replace the module by that of `onnx`, and so those in it, which native code has put there."""
        own = module.__name__
        sys.modules[own] = import_module(self.theirs)
        for name, inner in list(sys.modules.items()):
            if name.startswith(f"{self.theirs}."):
                sys.modules[own + name[len(self.theirs) :]] = inner


class _Copy(SourceFileLoader):
    """A loader that executes the code of a module of `onnx`, whose imports of `onnx` lead to `formats.onnxpb`."""

    def exec_module(self, module: ModuleType) -> None:
        """Execute the code, with an `import` of its own."""
        vars(module)["__builtins__"] = {**vars(builtins), "__import__": _import}
        code = self.get_code(module.__name__)
        assert code is not None  # there is a file
        exec(code, vars(module))  # noqa: S102 - this is what a loader does
        if module.__name__[len(ROOT) + 1 :] in OF_ANY_SIZE:
            function, of_any_size = OF_ANY_SIZE[module.__name__[len(ROOT) + 1 :]]
            vars(module)[function] = of_any_size(vars(module)[function])


def _import(
    name: str,
    globals: Mapping[str, Any] | None = None,  # noqa: A002 - the names of `__import__`
    locals: Mapping[str, Any] | None = None,  # noqa: A002
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> ModuleType:
    """What `import` does in a copied module."""
    if level == 0 and name.partition(".")[0] == ONNX:
        name = ROOT + name[len(ONNX) :]
        if not fromlist:  # `import onnx.helper`, of which the name `onnx` is stored
            import_module(name)
            return import_module(ROOT)
    return builtins.__import__(name, globals, locals, fromlist or (), level)


# Our classes in the modules of `onnx`


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
                    if id(module) in self._known or _package_of(module) == ONNX:
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
    pairs: list[tuple[Any, Any]] = []
    for name, own in _names_of_classes().items():
        pairs += [(vars(module)[name], own) for module in modules if name in vars(module) and not isinstance(own, int)]
    pairs += [(getattr(onnx, name), getattr(io, name)) for name in io.__all__ if hasattr(onnx, name)]
    for module, (name, of_any_size) in OF_ANY_SIZE.items():
        function = getattr(import_module(f"{ONNX}.{module}"), name)
        if not hasattr(function, "__wrapped__"):  # as it is if it was replaced already
            pairs.append((function, of_any_size(function)))
    with needed("google.protobuf", "programs over formats.onnxpb.install"):
        native = import_module("google.protobuf.unknown_fields").UnknownFieldSet
    if native.__module__ != __name__:  # as it is if it was replaced already
        pairs.append((native, _for_both(native)))
    with suppress(ImportError):  # protobuf without its native code
        natives = import_module("google._upb._message")
        kinds = [(vars(natives)[name], own) for name, own in NATIVE]
        pairs += [(kind, _kind_of_both(kind, own)) for kind, own in kinds if not isinstance(kind, _KindOfBoth)]
    return [(theirs, own) for theirs, own in pairs if theirs is not own]


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
    modules = (getattr(module, "__dict__", None) for module in list(sys.modules.values()))
    return [names for names in modules if isinstance(names, dict) and _package_of(names) != OWN]


def _package_of(names: dict[str, Any]) -> str:
    """The package of the module that has these names."""
    return str(names.get("__name__", "")).partition(".")[0]

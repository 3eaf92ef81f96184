"""The modules of `onnx` over our message classes, as modules of `formats.onnxpb`.

    from formats.onnxpb import checker, helper
    from formats.onnxpb.reference import ReferenceEvaluator

Each is the code of the installed `onnx`, executed once more, in a module with a name of ours. Its own imports of `onnx`
lead to `formats.onnxpb`, so that it makes our messages and uses our `load` and `save`. The modules of `onnx` itself
do not change. `defs` and the native code are those of `onnx`: the messages that they make are of its classes.

Spec: the `onnx` package (1.17 to 1.23).
"""

from __future__ import annotations

import builtins
import sys
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec, spec_from_loader
from types import ModuleType
from typing import TYPE_CHECKING, Any

from formats.extras import needed

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT, ONNX = "formats.onnxpb", "onnx"
OWN_EXTERNAL_DATA = "_external_data_helper_of_onnx"
OF_CLASSES = ("onnx_ml_pb2", "onnx_data_pb2")  # modules that protobuf generated
AS_THEY_ARE = (
    *("defs", "gen_proto", "onnx_cpp2py_export", "onnx_operators_ml_pb2", "onnx_operators_pb", "version"),
    "tools",
)
NAMES = ("__version__", "ONNX_ML", "OperatorProto", "OperatorSetProto")  # of `onnx`, which are not modules


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


def spec_of(fullname: str) -> ModuleSpec | None:
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
    found = PathFinder.find_spec(theirs, path)
    if found is None or found.origin is None:
        return None
    spec = spec_from_loader(fullname, _Copy(fullname, found.origin))
    if spec is not None and found.submodule_search_locations is not None:
        spec.submodule_search_locations = []  # so that only `spec_of` finds what is in this package
    return spec


class _Classes(Loader):
    """A loader of the modules that protobuf generated for `onnx`: they have our classes."""

    def create_module(self, spec: ModuleSpec) -> None:
        """A new module."""

    def exec_module(self, module: ModuleType) -> None:
        """Put the classes into the module."""
        from formats.onnx_compat.protos import classes
        from formats.onnx_compat.protos.descriptor import FILE

        vars(module).update(names_of_classes(classes), DESCRIPTOR=FILE)


def names_of_classes(classes: ModuleType) -> dict[str, Any]:
    """The message classes, enums and constants, by the names that they have in `onnx`."""
    from formats.onnxpb.wire.schema import ENUMS

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

"""Writes stubs of the modules of `formats.onnxpb` that are the code of the installed `onnx` over our message classes.

A stub has the functions and classes that the module has in the newest release of `onnx`, with our messages in their
signatures. What is no function or class has the type that it has in `onnx`.
"""

from __future__ import annotations

import ast
from importlib import import_module
from importlib.util import find_spec
from inspect import ismodule
from pathlib import Path
from typing import TYPE_CHECKING

from operator_sets import is_older

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

ROOT = Path(__file__).resolve().parents[1]
ONNX, OURS = "onnx", "formats.onnxpb"
HEAD = "# Written by schemas/generate.py from {name} of onnx; do not edit.\n# ruff: noqa\n# fmt: off\n"
COPIED = (
    *("backend", "backend.base", "checker", "compose", "helper", "inliner", "model_container", "numpy_helper"),
    *("parser", "printer", "reference", "reference.op_run", "reference.reference_evaluator", "shape_inference"),
    *("tools", "tools.replace_constants", "tools.update_model_dims", "utils", "version_converter"),
)
AS_THEY_ARE = ("defs", "onnx_cpp2py_export", "version")
OF_CLASSES = ("onnx_ml_pb2", "onnx_data_pb", "onnx_data_pb2", "onnx_pb")  # modules with the message classes
STUBS = {*COPIED, *AS_THEY_ARE, *OF_CLASSES}
PACKAGES = ("backend", "reference", "tools")
MESSAGE = "ProtoMessage"  # what all our messages are
GENERIC = {"os.PathLike": "str", "np.ndarray": "Any, Any", "numpy.ndarray": "Any, Any", "np.dtype": "Any"}
GENERIC |= {"numpy.dtype": "Any", "list": "Any", "dict": "Any, Any", "tuple": "Any, ..."}
KEPT_DECORATORS = ("abstractmethod", "classmethod", "property", "staticmethod", "setter")


class Written(ast.NodeTransformer):
    """Types in annotations, written in full: generic ones of any kind, and our messages in the place of protobuf's."""

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        """A generic type that is written in full, or another subscript."""
        node.slice = self.visit(node.slice)
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """A type with the name of its module."""
        name = ast.unparse(node)
        return ast.Name(MESSAGE) if name == "google.protobuf.message.Message" else _in_full(name, node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A type without the name of its module."""
        return _in_full(node.id, node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """A function, of which only the annotations matter."""
        single = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs, node.args.vararg, node.args.kwarg)
        for parameter in single:
            if parameter is not None and parameter.annotation is not None:
                parameter.annotation = self.visit(parameter.annotation)
        node.returns = node.returns and self.visit(node.returns)
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.AST:
        """A class, whose bases stay."""
        node.body = [self.visit(part) for part in node.body]
        return node


def _in_full(name: str, node: ast.expr) -> ast.AST:
    """A type with its arguments, if it needs some."""
    return ast.parse(f"{name}[{GENERIC[name]}]", mode="eval").body if name in GENERIC else node


def targets() -> Iterator[tuple[Callable[[], str], str]]:
    """What writes each stub, and its path."""
    for names, write in ((COPIED, _copied), (AS_THEY_ARE, _as_it_is), (OF_CLASSES, _of_classes)):
        for name in names:
            path = f"formats/onnxpb/{name.replace('.', '/')}{'/__init__' if name in PACKAGES else ''}.pyi"
            yield _current_or(path, name, write), path


def _current_or(path: str, name: str, write: Callable[[str], str]) -> Callable[[], str]:
    """What writes a stub; it stays as it is if `onnx` is missing or older."""

    def text() -> str:
        if find_spec(ONNX) is None or is_older():
            return (ROOT / path).read_text("utf-8")
        public = getattr(import_module(f"{ONNX}.{name}"), "__all__", None)
        listed = "" if public is None else f"\n__all__ = {sorted(public)}\n"
        return HEAD.format(name=name) + "\n" + write(name) + listed

    return text


def _of_classes(name: str) -> str:
    """The stub of a module that protobuf generated for `onnx`, or that has the names of this one."""
    if name != OF_CLASSES[0]:
        return f"from {OURS}.{OF_CLASSES[0]} import *\n"
    public = [word for word in dir(import_module(f"{OURS}.{name}")) if not word.startswith("_")]
    known = import_module("formats.onnx_compat.protos.classes")
    return _from("formats.onnx_compat.protos.classes", [word for word in public if hasattr(known, word)])


def _as_it_is(name: str) -> str:
    """The stub of a module that is the one of `onnx`."""
    module = import_module(f"{ONNX}.{name}")
    names = [*(getattr(module, "__all__", None) or _own(module))]
    return _from(f"{ONNX}.{name}", names) if names else ""


def _own(module: object) -> list[str]:
    """The public names of a module that has no list of them, without what it imported."""
    names = vars(module)
    return [
        word
        for word, value in names.items()
        if not word.startswith("_")
        and not ismodule(value)
        and getattr(value, "__module__", names["__name__"]) == names["__name__"]
    ]


def _from(module: str, names: list[str]) -> str:
    """An import of names that are public in the stub."""
    return f"from {module} import (\n" + "".join(f"    {name} as {name},\n" for name in sorted(names)) + ")\n"


def _copied(name: str) -> str:
    """The stub of a module whose code is executed with our classes."""
    spec = find_spec(f"{ONNX}.{name}")
    assert spec is not None and spec.origin is not None  # its code is a file
    body = ast.parse(Path(spec.origin).read_text("utf-8")).body
    body = [Written().visit(statement) for statement in body]
    module = import_module(f"{ONNX}.{name}")
    public = {*getattr(module, "__all__", ())}
    text = "\n".join(line for statement in body for line in _definition(statement))
    used = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)} | {"Any"}
    imports = {word: line for word, line in _imports(body, public) if word in used | public}
    values = [value for value in _values(body) if value in used or not value.startswith("_")]
    imports.setdefault("Any", "from typing import Any")
    if MESSAGE in used:
        imports[MESSAGE] = f"from formats.onnx_compat.protos.message import {MESSAGE}"
    errors = [value for value in values if _is_error(getattr(module, value))]  # native, and known without `onnx`
    lines = [
        *imports.values(),
        *(f"class {error}({getattr(module, error).__base__.__name__}): ..." for error in errors),
    ]
    if others := [value for value in values if value not in errors]:
        lines.append(_from(f"{ONNX}.{name}", others))
    return "\n".join([*lines, text, ""] if text else [*lines, ""])


def _is_error(value: object) -> bool:
    return isinstance(value, type) and issubclass(value, Exception)


def _values(body: list[ast.stmt]) -> Iterator[str]:
    """The names of a module that are neither functions nor classes."""
    for statement in body:
        targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
        yield from (target.id for target in targets if isinstance(target, ast.Name) and target.id != "__all__")


def _imports(body: list[ast.stmt], public: set[str]) -> Iterator[tuple[str, str]]:
    """The names that a module imports, each with a line that does it, of `formats.onnxpb` in the place of `onnx`.

    `public` are the names that the module passes on.
    """
    for statement in body:
        if isinstance(statement, ast.If):  # of TYPE_CHECKING
            yield from _imports(statement.body, public)
        elif isinstance(statement, ast.Import):
            for alias in statement.names:
                top = alias.name.split(".")[0]
                if top == ONNX and alias.asname is None:  # `import onnx.helper`, of which the name `onnx` is stored
                    yield ONNX, f"import {OURS} as {ONNX}"
                else:
                    name = _ours(alias.name)
                    yield alias.asname or top, f"import {name}{f' as {alias.asname}' if alias.asname else ''}"
        elif isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                name = alias.asname or alias.name
                words = alias.name if name == alias.name and name not in public else f"{alias.name} as {name}"
                yield name, f"from {_ours(statement.module or '')} import {words}"


def _ours(module: str) -> str:
    """The module of ours in the place of one of `onnx`; other modules, and native ones, are as they are."""
    top, _, inner = module.partition(".")
    if top != ONNX or inner.split(".")[0] in AS_THEY_ARE:
        return module
    return (
        OURS + module[len(ONNX) :] if not inner or inner in (*COPIED, *OF_CLASSES, "external_data_helper") else module
    )


def _definition(statement: ast.stmt) -> Iterator[str]:
    """A public function or class without its code."""
    if isinstance(statement, (ast.FunctionDef, ast.ClassDef)) and not statement.name.startswith("_"):
        yield ast.unparse(_without_code(statement))


def _without_code(statement: ast.FunctionDef | ast.ClassDef) -> ast.stmt:
    """A function or class with the types of its parts alone."""
    statement.decorator_list = [each for each in statement.decorator_list if _last(each) in KEPT_DECORATORS]
    if isinstance(statement, ast.FunctionDef):
        return _signature(statement)
    fields: dict[str, ast.stmt] = {}
    for part in statement.body:
        if isinstance(part, ast.FunctionDef):
            for name in _set_in(part) if part.name == "__init__" else ():
                fields.setdefault(name, ast.parse(f"{name}: Any").body[0])
        elif isinstance(part, (ast.Assign, ast.AnnAssign)):
            target = part.targets[0] if isinstance(part, ast.Assign) else part.target
            kind = ast.unparse(part.annotation) if isinstance(part, ast.AnnAssign) else "Any"
            kind = "Any" if kind.startswith("_") else kind  # of a type that is inside the class
            fields[ast.unparse(target)] = ast.parse(f"{ast.unparse(target)}: {kind}").body[0]
    functions = [part for part in statement.body if isinstance(part, ast.FunctionDef)]
    methods = [_signature(function) for function in functions if _is_public(function.name)]
    named = {method.name for method in methods}
    statement.body = [*(field for name, field in fields.items() if _is_public(name) and name not in named), *methods]
    statement.body = statement.body or [ast.Expr(ast.Constant(...))]
    return statement


def _is_public(name: str) -> bool:
    return not name.startswith("_") or name.startswith("__")


def _set_in(function: ast.FunctionDef) -> Iterator[str]:
    """The attributes of `self` that a function sets."""
    for node in ast.walk(function):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and ast.unparse(node.value) == "self":
            yield node.attr


def _last(decorator: ast.expr) -> str:
    """The last word of the name of a decorator."""
    return ast.unparse(decorator).partition("(")[0].rpartition(".")[2]


def _signature(function: ast.FunctionDef) -> ast.FunctionDef:
    """A function without its code; what `onnx` gives no type has any."""
    parameters = function.args
    function.decorator_list = [each for each in function.decorator_list if _last(each) in KEPT_DECORATORS]
    single = (*parameters.posonlyargs, *parameters.args, *parameters.kwonlyargs)
    for parameter in (*single, parameters.vararg, parameters.kwarg):
        if parameter is not None and parameter.annotation is None and parameter.arg not in ("self", "cls"):
            parameter.annotation = ast.Name("Any")
    parameters.defaults = [ast.Constant(...) for _ in parameters.defaults]
    parameters.kw_defaults = [default and ast.Constant(...) for default in parameters.kw_defaults]
    if function.returns is None:
        function.returns = ast.Constant(None) if function.name == "__init__" else ast.Name("Any")
    function.body = [ast.Expr(ast.Constant(...))]
    return function

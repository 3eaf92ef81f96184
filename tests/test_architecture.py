"""The rules of the design that a program can check: imports, names, sizes and docstrings."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "formats"
MODULES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py") if "target" not in path.parts)

MAX_MODULE_LINES = 400
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 7
FORBIDDEN_NAMES = {"util", "utils", "helper", "helpers", "common", "manager", "managers", "base", "misc", "lib"}

# Modules and functions above a limit, and the reason.
LONG_MODULES = {
    "formats.ir.model": "a table: a class for every message",
    "formats.onnxpb.schema": "a table",
    "formats.rten.file.schema": "a table",
    "formats.rten.operators.resize": "a family: a spec for every operator",
    "formats.rten.operators.shape": "a family: a spec for every operator",
    "formats.rten.operators.elementwise": "a family: a spec for every operator",
    "formats.rten.operators.reduction": "a family: a spec for every operator",
    "formats.onnxpb.api": "a function for each of those that `onnx` has",
    "formats.onnxpb.decoder": "one inner loop, and what it does with fields that it leaves where they are",
    "formats.onnxzip.reader": "what an archive is refused for, in the order of the file",
    "formats.tensordata.osio": "what every system has for files that are read, and what stands in where it lacks that",
}
LONG_FUNCTIONS = {
    "formats.onnxpb.decoder._Decoder.fields": "the inner loop of decoding, where a call costs as much as a field",
}
MANY_PARAMETERS = {"formats.options.option": "all that a row can say"}

# The modules of the package that each layer may import; the layers are the longest prefixes that fit. CONTRIBUTING.md
# shows this in short form: cli -> conversion -> registry -> codecs -> { tensordata, ir } -> errors.
FOUNDATION = (
    *(
        "formats.collector",
        "formats.errors",
        "formats.handed",
        "formats.ir",
        "formats.late_dataclasses",
        "formats.options",
    ),
    *("formats.tensordata", "formats.units"),
)
ALLOWED = {
    "formats.collector": (),
    "formats.errors": (),
    "formats.handed": (),
    "formats.foreign": (),
    "formats.extras": ("formats.errors",),
    "formats.late_dataclasses": (),
    "formats.tensordata": ("formats.errors", "formats.late_dataclasses", "formats.options", "formats.tensordata"),
    "formats.ir": ("formats.errors", "formats.ir", "formats.late_dataclasses"),
    "formats.ir.alike": FOUNDATION,
    "formats.ir.sameness": FOUNDATION,
    "formats.ir.storage": FOUNDATION,
    "formats.onnxpb": (
        *(*FOUNDATION, "formats.onnxpb", "formats.codecs", "formats.extras", "formats.foreign"),
        "formats.onnxzip.reader",
    ),
    "formats.onnxzip": (
        *FOUNDATION,
        "formats.onnxzip",
        "formats.codecs.contract",
        "formats.onnxpb.decoder",
        "formats.onnxpb.encoder",
        "formats.onnxpb.long_lists",
        "formats.onnxpb.references",
        "formats.onnxpb.wire",
    ),
    "formats.rten": (*FOUNDATION, "formats.onnxpb.encoder", "formats.rten", "formats.codecs.contract"),
    "formats.codecs": ("formats.codecs",),
    "formats.codecs.contract": (*FOUNDATION, "formats.onnxpb.keys"),
    "formats.codecs.lookup": (
        *FOUNDATION,
        "formats.codecs.contract",
        "formats.onnxpb",
        "formats.onnxzip",
        "formats.rten",
    ),
    "formats.registry": ("formats.codecs",),
    "formats.trust": (*FOUNDATION, "formats.registry"),
    "formats.conversion": (
        *(*FOUNDATION, "formats.arguments", "formats.choices", "formats.registry", "formats.reports"),
        *("formats.foreign", "formats.trust"),
    ),
    "formats.reports": FOUNDATION,
    "formats.linking": ("formats.conversion",),
    "formats.job_list": ("formats.arguments", "formats.jobs", "formats.registry", "formats.tensordata"),
    "formats.manifest": (*FOUNDATION, "formats", "formats.arguments"),
    "formats.jobs": (*FOUNDATION, "formats.arguments", "formats.conversion", "formats.manifest"),
    "formats.clusters": ("formats.errors", "formats.extras"),
    "formats.workers": ("formats.jobs",),
    "formats.batches": (
        *(*FOUNDATION, "formats.choices", "formats.jobs", "formats.manifest", "formats.registry", "formats.workers"),
    ),
    "formats.inspection": (
        *FOUNDATION,
        *("formats.arguments", "formats.choices", "formats.registry", "formats.conversion"),
    ),
    "formats.companions": (*FOUNDATION, "formats.arguments", "formats.registry", "formats.conversion"),
    "formats.relocation": (
        *(*FOUNDATION, "formats.arguments", "formats.companions", "formats.registry"),
        *("formats.onnxpb.encoder", "formats.reports"),
    ),
    "formats.restoration": (*FOUNDATION, "formats.arguments", "formats.onnxzip"),
    "formats.sharing": (
        *(*FOUNDATION, "formats.arguments", "formats.conversion", "formats.onnxpb", "formats.registry"),
        *("formats.suggestions", "formats.trust"),
    ),
    "formats.layout": (
        *(*FOUNDATION, "formats.arguments", "formats.registry", "formats.conversion", "formats.inspection"),
        *("formats.units", "formats.onnxpb.safetensors"),
    ),
    "formats.verification": (
        *FOUNDATION,
        "formats.arguments",
        "formats.registry",
        "formats.conversion",
        "formats.inspection",
    ),
    "formats.difference": (
        *(*FOUNDATION, "formats.arguments", "formats.registry", "formats.conversion", "formats.trust"),
        "formats.element_difference",
    ),
    "formats.element_difference": FOUNDATION,
    "formats.adoption": (*FOUNDATION, "formats.onnxpb", "formats.extras"),
    "formats.arguments": ("formats.adoption", "formats.errors", "formats.ir", "formats.tensordata"),
    "formats.bridge": (*FOUNDATION, "formats.onnxpb", "formats.conversion", "formats.extras"),
    "formats.units": (),
    "formats.options": ("formats.errors", "formats.late_dataclasses", "formats.suggestions", "formats.units"),
    "formats.suggestions": ("formats.errors",),
    "formats.keywords": (),
    "formats.choices": (*FOUNDATION, "formats.registry", "formats.suggestions"),
    "formats.cli": (
        *FOUNDATION,
        *("formats", "formats.batches", "formats.choices", "formats.cli", "formats.clusters", "formats.companions"),
        "formats.conversion",
        *("formats.arguments", "formats.difference", "formats.job_list", "formats.jobs"),
        *("formats.inspection", "formats.layout", "formats.onnxpb.keys", "formats.registry", "formats.relocation"),
        *("formats.restoration", "formats.sharing", "formats.units", "formats.verification"),
    ),
    "formats.codec": ("formats.ir", "formats.onnxpb", "formats.codecs.contract", "formats.tensordata"),
    "formats.testing": (
        *FOUNDATION,
        *("formats.cli", "formats.conversion", "formats.difference", "formats.options", "formats.codecs"),
        "formats.testing",
    ),
    "formats.__main__": ("formats.cli",),
    "formats": (*FOUNDATION, "formats.onnxpb.keys"),
}
# The names of another codec that a codec may use; everything else of that module is forbidden.
ONLY_NAMES = {
    ("formats.onnxzip", "formats.onnxpb.decoder"): {"decode", "FieldsInSource"},
    ("formats.onnxzip", "formats.onnxpb.encoder"): {"encode"},
    ("formats.onnxzip", "formats.onnxpb.references"): {"referring"},
    ("formats.onnxpb", "formats.onnxzip.reader"): {"read_entries"},
    ("formats.rten", "formats.onnxpb.encoder"): {"encode"},
    ("formats.layout", "formats.onnxpb.safetensors"): {"header_of"},
}
# Modules that may import only these at their top level, and everything else in functions.
LIGHT = {
    "formats",
    "formats.collector",
    "formats.codecs",
    "formats.codecs.contract",
    "formats.codecs.lookup",
    "formats.errors",
    "formats.handed",
    "formats.late_dataclasses",
    "formats.registry",
    "formats.units",
    "formats.keywords",
    "formats.options",
    "formats.cli",
    "formats.cli.advice",
    "formats.cli.columns",
    "formats.cli.command_line",
    "formats.cli.completion",
    "formats.cli.error_text",
    "formats.cli.file_verbs",
    "formats.cli.looking_verbs",
    "formats.cli.other_converts",
    "formats.cli.printing",
    "formats.cli.process",
    "formats.cli.progress_bar",
    "formats.cli.report_lines",
    "formats.cli.several",
    "formats.cli.shared_options",
    "formats.cli.streams",
    "formats.cli.typer_commands",
    "formats.cli.verbs",
    "formats.__main__",
}
LIGHT |= {"formats.onnxpb", "formats.onnxzip", "formats.rten", "formats.onnxpb.codecs"}
LIGHT |= {f"formats.{codec}.options" for codec in ("onnxpb", "onnxzip", "rten")}
DEPENDENCIES = {"numpy", "ml_dtypes", "isal", "typer", "rich", "formats"}
OPTIONAL = {  # and the modules that may import them
    "cryptography": ("formats.onnxpb.ciphers",),
    "distributed": ("formats.clusters",),
    "google": ("formats.adoption",),
    "onnx": ("formats.bridge", "formats.onnxpb.serialization"),
    "onnx_ir": ("formats.adoption", "formats.bridge"),
    "onnxruntime": ("formats.bridge",),
    "aiohttp": ("formats.tensordata.stores",),
    "fsspec": ("formats.tensordata.stores",),
}
HEAVY = {"numpy", "ml_dtypes", "isal", "rich"}
FORBIDDEN_CALLS = {"print", "sys.exit", "exit", "quit", "os._exit", "warnings.warn", "sys.stdout.write", "breakpoint"}
FORBIDDEN_CALLS |= {"typer.echo"}
MAY_CALL = {"formats.cli.printing": {"print"}}


class Import(NamedTuple):
    """One name that a module imports."""

    module: str
    name: str
    line: int
    lazy: bool


@cache
def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def dotted(path: Path) -> str:
    """Return the name under which a module is imported."""
    return ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


MODULE_NAMES = {dotted(path) for path in MODULES}


def longest_prefix(name: str, prefixes: dict[str, tuple[str, ...]]) -> str:
    """Return the layer of a module."""
    parts = name.split(".")
    return next(layer for size in range(len(parts), 0, -1) if (layer := ".".join(parts[:size])) in prefixes)


def within(name: str, packages: tuple[str, ...]) -> bool:
    """Return whether a module is one of these, or in one of them; "formats" means only itself."""
    return any(name == package or (package != "formats" and name.startswith(f"{package}.")) for package in packages)


@cache
def imports(path: Path) -> list[Import]:
    """Yield everything that a module imports, also in functions, but not imports for type checkers only."""

    def visit(node: ast.AST, lazy: bool) -> Iterator[Import]:
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            children: list[ast.AST] = [*node.orelse]
        else:
            children = [*ast.iter_child_nodes(node)]
        if isinstance(node, ast.Import):
            yield from (Import(alias.name, "", node.lineno, lazy) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports are absolute"
            yield from (Import(node.module or "", alias.name, node.lineno, lazy) for alias in node.names)
        for child in children:
            yield from visit(child, lazy or isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)))

    return list(visit(tree(path), False))


def imported_module(entry: Import) -> str:
    """Return the module that an import refers to: `from formats.ir import walk` refers to `formats.ir.walk`."""
    inner = f"{entry.module}.{entry.name}"
    return inner if inner in MODULE_NAMES else entry.module


@cache
def functions(path: Path) -> list[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield every function of a module with its dotted name, including functions inside functions."""

    def visit(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
        for child in ast.iter_child_nodes(node):
            name = f"{prefix}.{child.name}" if isinstance(child, (ast.FunctionDef, ast.ClassDef)) else prefix
            if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef)):
                yield name, child
            yield from visit(child, name)

    return list(visit(tree(path), dotted(path)))


def line_count(path: Path) -> int:
    """Return the number of lines of a file."""
    return len(path.read_text(encoding="utf-8").splitlines())


def test_modules_import_only_what_is_below_them() -> None:
    """No module imports another module of the package that its layer may not import."""
    wrong = []
    for path in MODULES:
        layer = longest_prefix(dotted(path), ALLOWED)
        for entry in imports(path):
            module = imported_module(entry)
            if module.split(".")[0] != "formats":
                continue
            names = ONLY_NAMES.get((layer, module))
            if not within(module, ALLOWED[layer]) or (names is not None and entry.name not in names):
                wrong.append(f"{path}:{entry.line}: {entry.module} {entry.name}")
    assert not wrong


def test_modules_import_only_declared_dependencies() -> None:
    """Modules import only the standard library and dependencies; optional packages only where this is allowed."""
    wrong = []
    for path in MODULES:
        for entry in imports(path):
            root = entry.module.split(".")[0]
            if root not in DEPENDENCIES | sys.stdlib_module_names and dotted(path) not in OPTIONAL.get(root, ()):
                wrong.append(f"{path}:{entry.line}: {entry.module}")
    assert not wrong


def test_light_modules_import_nothing_heavy_by_themselves() -> None:
    """Codec packages, and all modules that are needed to refuse input, import large modules only in functions."""
    wrong = []
    for path in MODULES:
        if dotted(path) in LIGHT:
            eager = [entry for entry in imports(path) if not entry.lazy]
            roots = {entry.module.split(".")[0] for entry in eager}
            inner = {imported_module(entry) for entry in eager if entry.module.split(".")[0] == "formats"}
            wrong += [f"{path}: {name}" for name in (roots & HEAVY) | (inner - LIGHT)]
    assert not wrong


def test_dataclasses_are_made_late() -> None:
    """No module imports `dataclasses` by itself, except for two that commands do not use."""
    eager = {
        dotted(path) for path in MODULES for entry in imports(path) if not entry.lazy and entry.module == "dataclasses"
    }
    assert eager == {"formats.onnxpb.merging", "formats.testing.checks"}


def test_only_the_commands_print_and_exit() -> None:
    """`print` is used in one place, `sys.exit` and `warnings` are used nowhere."""
    wrong = []
    for path in MODULES:
        calls = {ast.unparse(node.func) for node in ast.walk(tree(path)) if isinstance(node, ast.Call)}
        wrong += [f"{path}: {call}" for call in calls & FORBIDDEN_CALLS - MAY_CALL.get(dotted(path), set())]
    assert not wrong


def test_names_of_modules_say_something() -> None:
    """No module or package has a name that says nothing about its content."""
    paths = [path.relative_to(ROOT).with_suffix("") for path in (*MODULES, *TESTS)]
    assert not [path for path in paths if {*path.parts, path.name.removeprefix("test_")} & FORBIDDEN_NAMES]


def test_modules_are_short() -> None:
    """A module that is not a table stays below the limit of lines, or is listed with the reason."""
    long = {dotted(path): line_count(path) for path in MODULES if line_count(path) > MAX_MODULE_LINES}
    assert {name: lines for name, lines in long.items() if name not in LONG_MODULES} == {}


def test_functions_are_short() -> None:
    """Functions have at most 60 lines and 7 parameters, without `self` and `cls`."""
    wrong = []
    for path in MODULES:
        for name, function in functions(path):
            lines = (function.end_lineno or 0) - function.lineno + 1
            given = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
            count = sum(argument.arg not in ("self", "cls") for argument in given)
            if lines > MAX_FUNCTION_LINES and name not in LONG_FUNCTIONS:
                wrong.append(f"{name} has {lines} lines")
            if count > MAX_PARAMETERS and name not in MANY_PARAMETERS:
                wrong.append(f"{name} has {count} parameters")
    assert not wrong


def test_what_is_excepted_exists() -> None:
    """Every exception from a limit still exists."""
    assert MODULE_NAMES >= LONG_MODULES.keys()
    names = {name for path in MODULES for name, _ in functions(path)}
    assert names >= {*LONG_FUNCTIONS, *MANY_PARAMETERS}


def test_what_is_public_has_a_docstring() -> None:
    """Modules, and their public classes and functions, have docstrings."""

    def undocumented(scope: ast.Module | ast.ClassDef, name: str) -> Iterator[str]:
        if not ast.get_docstring(scope):
            yield name
        for node in scope.body:
            if not isinstance(node, (ast.ClassDef, ast.FunctionDef)) or node.name.startswith("_"):
                continue
            if isinstance(node, ast.ClassDef):
                yield from undocumented(node, f"{name}.{node.name}")
            elif not ast.get_docstring(node) and not any("overload" in ast.unparse(d) for d in node.decorator_list):
                yield f"{name}.{node.name}"

    assert not [name for path in MODULES for name in undocumented(tree(path), dotted(path))]


def test_every_test_states_a_behaviour() -> None:
    """Every test function has a docstring of one sentence, and every test module one of its own."""
    wrong = [str(path) for path in TESTS if not ast.get_docstring(tree(path))]
    for path in TESTS:
        for name, function in functions(path):
            if function.name.startswith("test") and not (ast.get_docstring(function) or "").endswith("."):
                wrong.append(name)
    assert not wrong


def test_no_function_changes_a_module() -> None:
    """No function declares a name `global`."""
    assert not [path for path in MODULES for node in ast.walk(tree(path)) if isinstance(node, ast.Global)]


def test_tests_mirror_the_package() -> None:
    """Every package of the first level has a folder of tests, and none of these folders is a package itself."""
    packages = {path.parent.relative_to(PACKAGE) for path in PACKAGE.glob("*/__init__.py")}
    assert not [package for package in packages if not (ROOT / "tests" / package).is_dir()]
    assert not [path for path in TESTS if path.name == "__init__.py"]


def test_rules_are_not_vacuous() -> None:
    """The import scanner finds imports in functions, and ignores imports for type checkers only."""
    convert = {entry.module for entry in imports(PACKAGE / "cli" / "process.py") if entry.lazy}
    assert {"formats", "glob"} <= convert
    assert "formats.ir.model" not in {entry.module for entry in imports(PACKAGE / "codecs" / "contract.py")}

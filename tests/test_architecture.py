"""The rules of the design that a program can check: imports, names, sizes and docstrings."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeGuard

import pytest
from systems import PATIENCE_SECONDS

from formats.python.extras import EXTRAS, INSTALLED_AS
from formats.rten.operators import families as operators

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "formats"
MODULES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py") if "target" not in path.parts)

MAX_MODULE_LINES = 600
MAX_FUNCTION_LINES = 60
MAX_PARAMETERS = 7
MAX_MODULES = 22  # in a folder, without `__init__` and the rooms in it
MAX_ROOMS = 20  # at the top
FORBIDDEN_NAMES = {"util", "utils", "helper", "helpers", "common", "manager", "managers", "base", "misc", "lib"}

# Modules and functions above a limit, and the reason.
LONG_MODULES = {
    "formats.ir.model": "a table: a class for every message",
    "formats.onnxpb.wire.decoder": "one inner loop, and what it does with fields that stay where they are",
}
LONG_FUNCTIONS = {
    "formats.onnxpb.wire.encoder._encode": "the inner loop of encoding, where a call costs as much as a field",
    "formats.onnxpb.wire.decoder.Decoder.fields": "the inner loop of decoding, where a call costs as much as a field",
}
MANY_PARAMETERS = {
    "formats.options.option": "all that a row can say",
    "formats.verbs.convert.convert": "the keywords of a conversion",
    "formats.verbs.edit.edit": "the keywords of a conversion",
    "formats.verbs.extract.extract": "the keywords of a conversion",
    "formats.verbs.merge.merge": "two sources, and the keywords of a conversion",
}

# The rooms of the package by floor, from the lowest to the highest, each with the modules that belong to it. A module
# may import modules of its own room and of lower floors. Imports in functions count, those for type checkers do not.
# The room of a module is that of the longest prefix of its name. CONTRIBUTING.md shows the same table.
FLOORS: tuple[dict[str, str], ...] = (
    {"errors": "errors python wording keywords"},
    {"options": "options"},
    {"tensordata": "tensordata"},
    {"ir": "ir.*", "flatbuffer": "flatbuffer"},
    {"codecs.contract": "codecs.contract codecs.keys codecs.foreign"},
    {"onnxpb": "onnxpb.*"},
    {"onnxzip": "onnxzip", "rten": "rten", "ort": "ort"},
    {"codecs.lookup": "codecs"},
    {"onnx_compat": "onnx_compat onnxpb onnxpb.external_data_helper onnxpb.serialization onnxpb.unknown_fields"},
    {"bridges.from_others": "bridges bridges.from_others"},
    {"editing": "editing ir"},
    {"verbs": "verbs"},
    {"bridges.to_others": "bridges.to_others"},
    {"batch": "batch", "pictures": "pictures"},
    {"cli": "cli __main__"},
    {"formats": ". codec signatures testing"},
)
# The names that any module may import from the package itself.
OF_THE_PACKAGE = {"__version__"}
# Imports for type checkers only that lead up, or to another room of the same floor: who gets or gives such an object
# names its type, but makes none.
TYPES_ONLY = {
    ("formats.ir.model", "formats.editing.ordering"),
    ("formats.keywords", "formats.codecs.keys"),
    ("formats.keywords", "formats.tensordata.sources.source"),
    ("formats.codecs.contract", "formats.onnxzip.records"),
    ("formats.onnxpb.external.archive_links", "formats.onnxzip.records"),
}
# Folders with more modules than the limit, and the reason.
FULL_FOLDERS = {"formats.rten.operators": "a module for each family of operators"}
# Modules that import each other in a circle: a class whose methods are functions of modules that work with it.
# Families of operators that are rewritten as others are not listed.
CIRCLES = {frozenset({"formats.ir.model", "formats.ir.storage", "formats.ir.walk"})}
FAMILIES = "formats.rten.operators."
# How many modules, and families of operators among them, a conversion of the example to a format may import.
IMPORTED = {"onnxz": (100, 0), "rten": (166, 22)}
# What a codec uses of another one.
OF_OTHER_CODECS = {
    ("onnxzip", "formats.onnxpb.wire.decoder"): {"decode"},
    ("onnxzip", "formats.onnxpb.wire.encoder"): {"encode"},
    ("onnxzip", "formats.onnxpb.wire.fields_in_source"): {"FieldsInSource"},
    ("onnxzip", "formats.onnxpb.external.other_graphs"): {"OtherGraphs"},
    ("onnxzip", "formats.onnxpb.external.references"): {"referring"},
    ("onnxzip", "formats.onnxpb.wire.varints"): None,  # all of it
    ("rten", "formats.onnxpb.wire.encoder"): {"encode"},
}
# Modules that may import only these at their top level, and everything else in functions.
LIGHT = {
    "formats",
    "formats.python.collector",
    "formats.codecs",
    "formats.codecs.contract",
    "formats.codecs.lookup",
    "formats.errors",
    "formats.python.handed",
    "formats.python.threads",
    "formats.wording.units",
    "formats.wording.system_errors",
    "formats.keywords",
    "formats.options",
    "formats.cli",
    "formats.cli.columns",
    "formats.cli.command_line",
    "formats.cli.error_text",
    "formats.cli.printing",
    "formats.pictures",
    "formats.pictures.progress_bar",
    "formats.cli.report_lines",
    "formats.cli.streams",
    "formats.__main__",
    "formats.onnx_compat",
    "formats.onnx_compat.protos",
    "formats.onnx_compat.protos.message_files",
    "formats.onnxpb",
    "formats.onnxpb.codecs",
    "formats.onnxzip",
    "formats.python",
    "formats.rten",
    "formats.ort",
    "formats.wording",
}
LIGHT |= {f"formats.{codec}.options" for codec in ("onnxpb", "onnxzip", "rten", "ort")}
DEPENDENCIES = {"typing_extensions", "numpy", "ml_dtypes", "isal", "typer", "rich", "formats"}
# Imports of optional packages outside `needed`, and why the package is there, or why the module needs none.
UNGUARDED = {
    ("formats.onnx_compat.protos.descriptor", "google.protobuf"): "an AttributeError says that it is missing",
    ("formats.onnx_compat.protos.descriptor", "onnx"): "an AttributeError says that it is missing",
    ("formats.onnx_compat.protos.values", "google.protobuf"): "without it, an own class is in its place",
    ("formats.onnxpb.encryption.ciphers", "cryptography"): "who imports this module does so in `needed`",
    ("formats.tensordata.remote.stores", "aiohttp"): "the filesystem of the address has imported it",
    ("formats.tensordata.remote.stores", "fsspec"): "`filesystem_of` has imported it",
}
HEAVY = {"numpy", "ml_dtypes", "isal", "rich"}
FORBIDDEN_CALLS = {"print", "sys.exit", "exit", "quit", "os._exit", "warnings.warn", "sys.stdout.write", "breakpoint"}
FORBIDDEN_CALLS |= {"typer.echo"}
MAY_CALL = {"formats.cli.printing": {"print"}, "formats.cli.process": {"os._exit"}}


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


ROOMS = {
    "formats" if name == "." else f"formats.{name}": (floor, room)
    for floor, rooms in enumerate(FLOORS)
    for room, names in rooms.items()
    for name in names.split()
}


def room_of(module: str) -> tuple[int, str]:
    """Return the floor and the room of a module: those of the longest prefix of its name, but never of the package."""
    found, package = ROOMS.get(module), module
    while found is None and "." in package:
        package = package.rpartition(".")[0]
        found = ROOMS.get(f"{package}.*") or (ROOMS.get(package) if package != "formats" else None)
    assert found is not None, f"{module} is in no room"
    return found


def is_for_types(node: ast.AST) -> TypeGuard[ast.If]:
    """Return whether a statement is only for type checkers."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


@cache
def imports(path: Path) -> list[Import]:
    """Return everything that a module imports, also in functions, but not imports for type checkers only."""

    def visit(node: ast.AST, lazy: bool) -> Iterator[Import]:
        if is_for_types(node):
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


@cache
def graph() -> dict[str, set[str]]:
    """Return the modules of the package that each module imports when it runs."""
    return {
        dotted(path): {
            imported_module(entry)
            for entry in imports(path)
            if entry.module.split(".")[0] == "formats"
            and not (entry.module == "formats" and entry.name in OF_THE_PACKAGE)
        }
        for path in MODULES
    }


def leads_up(module: str, imported: str) -> bool:
    """Return whether an import leads to a higher floor, or to another room on the same one."""
    return room_of(imported) != room_of(module) and room_of(imported)[0] >= room_of(module)[0]


def circles(edges: dict[str, set[str]]) -> set[frozenset[str]]:
    """Return the sets of several modules each of which reaches all others of its set."""

    @cache
    def reached(module: str) -> frozenset[str]:
        found: set[str] = set()
        waiting = [module]
        while waiting:
            new = edges[waiting.pop()] - found
            found |= new
            waiting += new
        return frozenset(found)

    every = {frozenset(other for other in reached(module) if module in reached(other)) for module in edges}
    return {circle for circle in every if len(circle) > 1}


def test_no_import_leads_up() -> None:
    """No module imports, when it runs, a module of a higher floor, or of another room on its floor."""
    wrong = [
        f"{module} ({room_of(module)[1]}) imports {imported} ({room_of(imported)[1]})"
        for module, found in graph().items()
        for imported in found
        if leads_up(module, imported)
    ]
    assert not wrong


def test_types_from_above_are_listed() -> None:
    """Imports for type checkers only that lead up are listed, and the list has no others."""
    found = set()
    for path in MODULES:
        module = dotted(path)
        for statement in filter(is_for_types, ast.walk(tree(path))):
            for node in (node for node in statement.body if isinstance(node, ast.ImportFrom)):
                imported = {imported_module(Import(node.module or "", alias.name, 0, False)) for alias in node.names}
                found |= {(module, other) for other in imported & MODULE_NAMES if leads_up(module, other)}
    assert TYPES_ONLY == found


def test_nothing_inside_imports_a_facade() -> None:
    """No module imports a package whose `__init__` is a list of names for users, or the list for other codecs."""
    packages = {dotted(path): tree(path) for path in MODULES if path.name == "__init__.py"}
    facades = {
        package for package, code in packages.items() if any("__all__" in ast.unparse(node) for node in code.body)
    }
    assert {"formats", "formats.onnxpb", "formats.testing"} == facades
    facades.add("formats.codec")
    assert not [(module, found & facades) for module, found in graph().items() if found & facades]


def test_no_import_leads_around() -> None:
    """No modules import each other in a circle when they run, except for those that are listed, and families."""
    found = {circle for circle in circles(graph()) if not all(module.startswith(FAMILIES) for module in circle)}
    assert CIRCLES == found
    assert max(map(len, found)) <= 4


def test_a_conversion_is_a_chain() -> None:
    """Opening, planning, executing and reporting do not know `convert`; of the verbs, few are conversions."""
    verbs = {name: found for name, found in graph().items() if name.startswith("formats.verbs.")}
    assert {f"formats.verbs.{name}" for name in ("edit", "extract", "link", "merge")} == {
        name for name, found in verbs.items() if "formats.verbs.convert" in found
    }
    chain = {
        "steps.opening": {"steps.planning", "steps.executing", "report"},
        "steps.planning": {"steps.opening", "steps.executing", "report"},
        "steps.executing": {"steps.planning"},
        "report": {"steps.opening", "steps.planning", "steps.executing"},
    }
    for step, others in chain.items():
        assert not {f"formats.verbs.{other}" for other in others} & verbs[f"formats.verbs.{step}"]


@pytest.mark.parametrize("target", IMPORTED)
def test_a_conversion_imports_what_it_uses(target: str, tmp_path: Path) -> None:
    """A conversion imports few modules, and of the families of operators only those that the model needs."""
    program = (
        "import sys\n"
        "from formats.verbs.convert import convert\n"  # as the command; `formats.convert` lists the options of all
        "convert(*sys.argv[1:])\n"
        "print(*(name for name in sys.modules if name.partition('.')[0] == 'formats'))"
    )
    source = ROOT / "examples" / "digits.onnx"
    command = [sys.executable, "-c", program, str(source), str(tmp_path / f"digits.{target}")]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS)
    imported = {*done.stdout.split()}
    families = {f"{FAMILIES}{family}" for family in operators.FAMILIES}
    most, most_families = IMPORTED[target]
    assert len(imported) <= most
    assert len(imported & families) <= most_families < len(families)


def test_codecs_use_little_of_each_other() -> None:
    """A codec uses of another codec only what is listed."""
    wrong = []
    for path in MODULES:
        room = room_of(dotted(path))[1]
        for entry in imports(path) if room in ("onnxzip", "rten") else ():
            module = imported_module(entry)
            if module in MODULE_NAMES and room_of(module)[1] == "onnxpb":
                names = OF_OTHER_CODECS.get((room, module), set())
                if names is not None and entry.name not in names:
                    wrong.append(f"{path}:{entry.line}: {entry.module} {entry.name}")
    assert not wrong


@pytest.mark.parametrize("folder", ["benchmarks", "schemas"])
def test_scripts_import_in_one_direction(folder: str) -> None:
    """No scripts of a folder import each other in a circle."""
    scripts = {path.stem: path for path in (ROOT / folder).glob("*.py")}
    edges = {name: {entry.module for entry in imports(path)} & scripts.keys() for name, path in scripts.items()}
    assert circles(edges) == set()


def test_circles_are_found() -> None:
    """A circle is found from each of its modules, and modules that only lead to it do not belong to it."""
    assert {frozenset("abc")} == circles({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}, "e": set()})


def test_the_table_of_floors_is_complete() -> None:
    """Every name in the table of floors is that of a module or a package, and no module is only in the last room."""
    assert {name.removesuffix(".*") for name in ROOMS} <= MODULE_NAMES
    assert all(room_of(module) for module in MODULE_NAMES)


def test_contributing_shows_the_floors() -> None:
    """CONTRIBUTING.md shows the rooms as the table has them, the highest floor first."""
    picture = "\n".join("   ".join(rooms) for rooms in reversed(FLOORS))
    assert f"```\n{picture}\n```" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_modules_import_only_declared_dependencies() -> None:
    """Modules import only the standard library and dependencies; optional packages only where this is allowed."""
    wrong = []
    for path in MODULES:
        for entry in imports(path):
            root = entry.module.split(".")[0]
            if root not in DEPENDENCIES | sys.stdlib_module_names and not optional(entry.module):
                wrong.append(f"{path}:{entry.line}: {entry.module}")
    assert not wrong


def optional(module: str) -> str:
    """Return the optional package that a module is of; empty if it is of none."""
    return next((package for package in EXTRAS if f"{module}.".startswith(f"{package}.")), "")


def unguarded(code: ast.AST, guards: frozenset[str] = frozenset()) -> Iterator[tuple[int, str]]:
    """Return the lines of code that import an optional package outside `with needed(PACKAGE, ...)`, and the package.

    A call of `import_module` is an import, too. What only type checkers see is none.
    """
    for node in ast.iter_child_nodes(code):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func) in ("import_module", "__import__"):
            first = node.args[0] if node.args else None
            first = first.values[0] if isinstance(first, ast.JoinedStr) else first
            names = [str(first.value)] if isinstance(first, ast.Constant) else []
        yield from ((node.lineno, found) for name in names if (found := optional(name)) and found not in guards)
        if is_for_types(node):
            yield from unguarded(ast.Module(node.orelse, []), guards)
        elif isinstance(node, ast.With):
            calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
            inside = {ast.literal_eval(call.args[0]) for call in calls if ast.unparse(call.func) == "needed"}
            yield from unguarded(node, guards | inside)
        else:
            yield from unguarded(node, guards)


def test_optional_packages_are_imported_where_one_line_says_how_to_install_them() -> None:
    """Each import of a package that an extra installs is inside `needed`, or has a reason; no reason is left over."""
    found = {(dotted(path), package) for path in MODULES for _, package in unguarded(tree(path))}
    assert found == set(UNGUARDED)


def test_modules_that_import_an_optional_package_are_imported_inside_needed() -> None:
    """The module that imports cryptography at its top is itself only imported where `needed` names it."""
    module = "formats.onnxpb.encryption.ciphers"
    for path in MODULES:
        inside = {
            id(inner)
            for node in ast.walk(tree(path))
            if isinstance(node, ast.With) and ast.unparse(node.items[0].context_expr).startswith("needed(")
            for inner in ast.walk(node)
        }
        types = {id(inner) for node in ast.walk(tree(path)) if is_for_types(node) for inner in ast.walk(node)}
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.ImportFrom):
                names = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
                assert module not in names or id(node) in inside | types, f"{path}:{node.lineno}"


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("import onnx.defs", [(1, "onnx")]),
        ("def f():\n    from onnxruntime import InferenceSession", [(2, "onnxruntime")]),
        ("if TYPE_CHECKING:\n    import onnx\nelse:\n    import onnx_ir", [(4, "onnx_ir")]),
        ("with needed('onnx', 'x'):\n    import onnx\n    import onnx_ir", [(3, "onnx_ir")]),
        ("import_module('google.protobuf.message')", [(1, "google.protobuf")]),
        ("import_module(f'onnx.{name}')", [(1, "onnx")]),
        ("import onnxruntime_extensions, numpy", []),
    ],
)
def test_an_import_outside_needed_is_found(code: str, wanted: list[tuple[int, str]]) -> None:
    """The search finds an import in any form and at any depth, and only outside of the context for its package."""
    assert wanted == list(unguarded(ast.parse(code)))


def test_the_extras_are_those_of_the_distribution() -> None:
    """Each optional package is in the extra that the error names."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    for package, extra in EXTRAS.items():
        (line,) = (line for line in text.splitlines() if line.startswith(f"{extra} = ["))
        name = INSTALLED_AS.get(package, package)
        assert f'"{name}>=' in line or name == "protobuf", "a dependency of onnx"


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


def test_no_folder_is_full() -> None:
    """A folder holds few modules, or is listed with the reason; the package has few rooms at the top."""
    counts = Counter(dotted(path.parent) for path in MODULES if path.name != "__init__.py")
    assert FULL_FOLDERS.keys() == {folder for folder, count in counts.items() if count > MAX_MODULES}
    assert len({path.relative_to(PACKAGE).parts[0] for path in MODULES if path.parent != PACKAGE}) <= MAX_ROOMS


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
    """Every exception from a limit still exists, and every module above the limit needs its exception."""
    assert LONG_MODULES.keys() == {dotted(path) for path in MODULES if line_count(path) > MAX_MODULE_LINES}
    names = {name for path in MODULES for name, _ in functions(path)}
    assert names >= {*LONG_FUNCTIONS, *MANY_PARAMETERS}


def test_what_is_public_has_a_docstring() -> None:
    """Modules, and their public classes and functions, have docstrings."""
    says_enough = {"overload", "because"}  # the latter has the reason for a rewriting

    def undocumented(scope: ast.Module | ast.ClassDef, name: str) -> Iterator[str]:
        if not ast.get_docstring(scope):
            yield name
        for node in scope.body:
            if not isinstance(node, (ast.ClassDef, ast.FunctionDef)) or node.name.startswith("_"):
                continue
            if isinstance(node, ast.ClassDef):
                yield from undocumented(node, f"{name}.{node.name}")
            elif not ast.get_docstring(node) and not says_enough & {
                ast.unparse(decorator).partition("(")[0] for decorator in node.decorator_list
            }:
                yield f"{name}.{node.name}"

    assert not [name for path in MODULES for name in undocumented(tree(path), dotted(path))]


@pytest.mark.outer
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


def test_rules_are_not_vacuous() -> None:
    """The import scanner finds imports in functions, and ignores imports for type checkers only."""
    convert = {entry.module for entry in imports(PACKAGE / "cli" / "process.py") if entry.lazy}
    assert {"formats.tensordata.moved", "glob"} <= convert
    assert "formats.ir.model" not in {entry.module for entry in imports(PACKAGE / "codecs" / "contract.py")}


def test_threads_are_started_in_one_place() -> None:
    """No module starts threads with what waits for them to begin: where memory is limited, that wait may never end."""
    waits = {"threading": {"Thread", "Timer"}, "concurrent.futures": {"ThreadPoolExecutor"}, "concurrent": {"futures"}}
    waits["multiprocessing.pool"] = {"ThreadPool"}
    found = [
        f"{dotted(path)}: {name}"
        for path in MODULES
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        for name in (
            {alias.name for alias in node.names} & waits.get(node.module or "", set())
            if isinstance(node, ast.ImportFrom)
            else {node.attr} & set().union(*waits.values())
            if isinstance(node, ast.Attribute)
            else ()
        )
    ]
    assert not found

"""The rules of the design that a program can check: the floors, the four sentences, and what keeps modules readable."""

from __future__ import annotations

import ast
import dataclasses
import inspect
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple, TypeGuard

import pytest

from formats.codecs import contract, lookup
from formats.extras import PACKAGES
from formats.ir.model import MESSAGE_CLASSES, SOURCE_FIELDS, Message
from formats.onnxpb.wire.schema import MESSAGES
from formats.tensordata import engine

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "formats"
MODULES = sorted(PACKAGE.rglob("*.py"))
TESTS = sorted(path for path in (ROOT / "tests").rglob("*.py") if "target" not in path.parts)

# The rooms of the package by floor, from the lowest to the highest, each with the modules that belong to it. A module
# may import modules of its own room and of lower floors. Imports in functions count, those for type checkers do not.
# The room of a module is that of the longest prefix of its name. CONTRIBUTING.md shows the same table.
FLOORS: tuple[dict[str, str], ...] = (
    {"errors": "errors words extras collector keywords"},
    {"options": "options"},
    {"tensordata": "tensordata"},
    {"ir": "ir", "flatbuffer": "flatbuffer"},
    {"onnxruntime": "onnxruntime"},
    {"codecs.contract": "codecs codecs.contract"},
    {"onnxpb": "onnxpb.*"},
    {"onnxzip": "onnxzip", "rten": "rten", "ort": "ort"},
    {"codecs.lookup": "codecs.lookup"},
    {"onnx_compat": "onnx_compat onnxpb onnxpb.external_data_helper onnxpb.serialization onnxpb.unknown_fields"},
    {"bridges.from_others": "bridges bridges.from_others"},
    {"editing": "editing"},
    {"verbs": "verbs"},
    {"bridges.to_others": "bridges.to_others bridges.results"},
    {"batch": "batch", "pictures": "pictures"},
    {"cli": "cli __main__"},
    {"formats": ". codec signatures testing"},
)
OF_THE_PACKAGE = {"__version__"}  # the names that any module may import from the package itself
FACADES = {
    "formats",
    "formats.codec",
    "formats.onnxpb",
    "formats.testing",
}  # names for users; nothing inside needs them
# The imports that lead up, each in a function, and the reason: at most three.
UPWARD = {
    ("formats.ir.model", "formats.editing.model_edits"): "a model has its edits as methods",
    ("formats.onnxpb.external.archive_links", "formats.onnxzip.reader"): "a graph can be linked to an archive",
}
# What other codecs use of `onnxpb`, besides the wire format: a graph in an archive is a message like those beside it.
OF_ONNXPB = {f"formats.onnxpb.{name}" for name in ("external.other_graphs", "inference")}

# The modules that read protobuf without the table of its messages, and why.
WITHOUT_TABLE = {
    "formats.codecs.foreign": "messages of other formats, which are only recognised",
    "formats.onnxpb.codecs": "the first bytes of a file that may be no message",
    "formats.onnxpb.external.other_graphs": "names in the bytes of graphs that nobody opens",
    "formats.onnxpb.unknown_fields": "fields that are in no table",
}
# The rooms that open files to write, and what they write besides the files of models.
WRITERS = {"tensordata": "all files of models", "batch": "the record of a run", "cli": "the standard streams"}

DEPENDENCIES = {"typing_extensions", "numpy", "ml_dtypes", "isal", "typer", "rich", "formats"}
# Imports of optional packages outside `needed`, and why the package is there, or why the module needs none.
UNGUARDED = {
    ("formats.onnx_compat.installation", "onnx"): "without it, the newest IR version is that which is known here",
    ("formats.onnx_compat.protos.descriptor", "google.protobuf"): "an AttributeError says that it is missing",
    ("formats.onnx_compat.protos.descriptor", "onnx"): "an AttributeError says that it is missing",
    ("formats.onnx_compat.protos.values", "google.protobuf"): "without it, an own class is in its place",
    ("formats.bridges.results", "onnxruntime"): "in a process, whose start says that it is missing",
    ("formats.onnxpb.evaluation", "onnx"): "in a process, whose start says that it is missing",
    ("formats.onnxpb.evaluation", "onnxruntime"): "onnx is in its place",
    ("formats.onnxpb.inference_process", "onnx"): "`inference`, which starts it, says that it is missing",
    ("formats.onnxpb.encryption.ciphers", "cryptography"): "who imports this module does so in `needed`",
    ("formats.tensordata.spool", "cryptography"): "without it, no model can be encrypted, so nothing is secret",
    ("formats.tensordata.remote.stores", "aiohttp"): "the filesystem of the address has imported it",
    ("formats.tensordata.remote.stores", "fsspec"): "`filesystem_of` has imported it",
}
FORBIDDEN_NAMES = {"util", "utils", "helper", "helpers", "common", "manager", "managers", "base", "misc", "lib"}
FORBIDDEN_CALLS = {"print", "sys.exit", "exit", "quit", "os._exit", "warnings.warn", "sys.stdout.write", "typer.echo"}
MAY_CALL = {"formats.cli.streams": {"print"}, "formats.cli.process": {"os._exit"}}
MAX_MODULE_LINES = 600
MAX_FUNCTION_LINES = 56  # without the docstring, which has an example if people call the function
LONG = {  # modules and functions above the limit, and the reason
    "formats.ir.model": "a table: a class for every message",
    "formats.ir.model.Model.edit": "each option twice: as a keyword, and as it is passed on",
    "formats.onnxpb.wire.decoder": "one loop, and what it does with fields that stay where they are",
}


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
    room, package = ROOMS.get(module), module
    while room is None and "." in package:
        package = package.rpartition(".")[0]
        room = ROOMS.get(f"{package}.*") or (ROOMS.get(package) if package != "formats" else None)
    assert room is not None, f"{module} is in no room"
    return room


def is_for_types(node: ast.AST) -> TypeGuard[ast.If]:
    """Return whether a statement is only for type checkers."""
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"


@cache
def imports(path: Path) -> list[Import]:
    """Return everything that a module imports, also in functions, but not imports for type checkers only."""

    def visit(node: ast.AST, lazy: bool) -> Iterator[Import]:
        children = [*node.orelse] if is_for_types(node) else [*ast.iter_child_nodes(node)]
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


def own_imports(lazy: bool | None = None) -> set[tuple[str, str]]:
    """Return each module of the package with each other one that it imports when it runs."""
    return {
        (dotted(path), imported_module(entry))
        for path in MODULES
        for entry in imports(path)
        if entry.module.split(".")[0] == "formats"
        and not (entry.module == "formats" and entry.name in OF_THE_PACKAGE)
        and lazy in (None, entry.lazy)
    }


# The floors


def test_no_import_leads_up() -> None:
    """No module imports one of a higher floor, or of another room on its floor, except for three at most."""
    found = {
        (module, imported)
        for module, imported in own_imports()
        if room_of(imported) != room_of(module) and room_of(imported)[0] >= room_of(module)[0]
    }
    assert set(UPWARD) == found
    assert len(UPWARD) <= 3
    assert not own_imports(lazy=False) & set(UPWARD)


def test_nothing_inside_imports_a_facade() -> None:
    """No module imports what only collects names for users or for other codecs."""
    assert not [pair for pair in own_imports() if pair[1] in FACADES]


def test_codecs_use_little_of_each_other() -> None:
    """Codecs use of `onnxpb` only its wire format and what is listed."""
    codecs = next(rooms for rooms in FLOORS if "onnxzip" in rooms)
    used = {other for module, other in own_imports() if room_of(module)[1] in codecs and "onnxpb" in other}
    assert OF_ONNXPB == {module for module in used if not module.startswith("formats.onnxpb.wire")}


def test_contributing_shows_the_floors() -> None:
    """CONTRIBUTING.md shows the rooms as the table has them, the highest floor first; each module is in one of them."""
    drawn = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").partition("```\nformats ")[2].partition("```")[0]
    floors = [line.partition("#")[0].split() for line in f"formats {drawn}".splitlines()]
    assert [[*rooms] for rooms in reversed(FLOORS)] == floors
    assert {name.removesuffix(".*") for name in ROOMS} <= MODULE_NAMES
    assert all(room_of(module) for module in MODULE_NAMES)


# The four sentences of CONTRIBUTING.md


def test_a_model_is_plain_data_whose_tensors_hold_sources() -> None:
    """Each message is a dataclass with the fields of onnx.proto, and raw data is a source."""
    for kind in MESSAGE_CLASSES:
        assert dataclasses.is_dataclass(kind)
        assert issubclass(kind, Message)
        rows = {row.name for row in MESSAGES[kind.message]}
        others = {field.name for field in dataclasses.fields(kind)} - rows
        assert rows <= {field.name for field in dataclasses.fields(kind)}
        assert others <= {"unknown_fields", "external_source"}, kind
    assert "raw_data" in SOURCE_FIELDS["TensorProto"]


def test_a_codec_reads_and_plans_and_all_else_has_a_default() -> None:
    """A format needs four facts, `sniff`, `read` and `plan`; the contract says nothing of any single format."""
    assert {"sniff", "read", "plan"} == contract.Codec.__abstractmethods__
    facts = {name for name in contract.Codec.__annotations__ if not hasattr(contract.Codec, name)}
    assert {"name", "title", "extensions", "options"} == facts
    own = inspect.getsource(contract.Codec) + inspect.getsource(contract.Runtime)
    names = {word for codec in lookup.built_in() for word in (codec.name, codec.title)} | {"onnxruntime"}
    assert not [name for name in names - {"onnx"} if re.search(rf"\b{name}\b", own, re.IGNORECASE)]


def test_general_steps_ask_codecs_and_name_no_format() -> None:
    """What is done for every format compares no name of a format, and looks for no option of one format by its name."""
    formats = {codec.name for codec in lookup.built_in()}
    options = {field.name for codec in lookup.built_in() for field in dataclasses.fields(codec.options)}
    for path in (path for path in MODULES if room_of(dotted(path))[1] in ("verbs", "cli", "batch", "codecs.lookup")):
        for node in ast.walk(tree(path)):
            texts = {each.value for each in ast.iter_child_nodes(node) if isinstance(each, ast.Constant)}
            if isinstance(node, ast.Compare) and ast.unparse(node.left).endswith("codec.name"):
                assert not texts & formats, f"{path}:{node.lineno}"
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("getattr", "by_name")):
                assert not texts & (formats | options), f"{path}:{node.lineno}"


def test_only_the_engine_writes_and_starts_threads() -> None:
    """Files of models are written, and threads started, only in the room of the engine, which knows no format."""
    writing = re.compile(r"os\.O_(?:WRONLY|RDWR|CREAT)|open\([^)]*\"(?:[wax]b?|rb?\+)\"|\.write_bytes\(|os\.pwrite\(")
    threads = re.compile(r"\b(?:Thread|Timer|ThreadPool|ThreadPoolExecutor|start_new_thread)\b\(")
    for path in MODULES:
        room, text = room_of(dotted(path))[1], path.read_text(encoding="utf-8")
        assert room in WRITERS or not writing.search(text), path
        assert dotted(path) == "formats.tensordata.threads" or not threads.search(text), path
    code = ast.unparse(tree(Path(engine.__file__)))
    assert not re.search(r"rten|onnx|protobuf|zipfile", code, re.IGNORECASE)


def test_one_schema_table_drives_each_wire_format() -> None:
    """Field numbers are in the tables only, and what reads protobuf without them is listed, with the reason."""
    reading = re.compile(r"& 0x7F|varints import.*(?:decode|fields_of|skip)")
    found = {dotted(path) for path in MODULES if reading.search(path.read_text(encoding="utf-8"))}
    assert {name for name in found if "onnxpb.wire" not in name and "tensordata" not in name} == set(WITHOUT_TABLE)


# What keeps modules readable, and programs working


def optional(module: str) -> str:
    """Return the optional package that a module is of; empty if it is of none."""
    return next((package for package in PACKAGES if f"{module}.".startswith(f"{package}.")), "")


def unguarded(code: ast.AST, guards: frozenset[str] = frozenset()) -> Iterator[str]:
    """Return the optional packages that code imports outside `with needed(PACKAGE, ...)`.

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
        yield from (package for name in names if (package := optional(name)) and package not in guards)
        if is_for_types(node):
            yield from unguarded(ast.Module(node.orelse, []), guards)
        elif isinstance(node, ast.With):
            calls = [item.context_expr for item in node.items if isinstance(item.context_expr, ast.Call)]
            inside = {ast.literal_eval(call.args[0]) for call in calls if ast.unparse(call.func) == "needed"}
            yield from unguarded(node, guards | inside)
        else:
            yield from unguarded(node, guards)


def test_optional_packages_are_imported_where_one_line_says_how_to_install_them() -> None:
    """Modules import dependencies, and optional packages inside `needed`, or with a reason; no reason is left over."""
    assert set(UNGUARDED) == {(dotted(path), package) for path in MODULES for package in unguarded(tree(path))}
    roots = {entry.module for path in MODULES for entry in imports(path) if not optional(entry.module)}
    assert {name.split(".")[0] for name in roots} <= DEPENDENCIES | sys.stdlib_module_names


def test_the_extras_are_those_of_the_distribution() -> None:
    """Each optional package is in the extra that the error names."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    for extra, name in PACKAGES.values():
        (line,) = (line for line in text.splitlines() if line.startswith(f"{extra} = ["))
        assert f'"{name}>=' in line or name == "protobuf", "a dependency of onnx"


# Functions with a cache without a limit: what they are asked for is the names of our tables, never a text of a file.
CACHED = {
    *(
        "flatbuffer.fbs.slots",
        "flatbuffer.fbs.scalar_struct",
        "options.option_rows",
        "rten.operators.__init__.specs_in",
    ),
    *("onnx_compat.protos.copies._fields", "onnx_compat.protos.values._both", "onnxpb.text.textfile.fields_in_order"),
    *("onnxpb.text.protojson._rows_by_name", "onnxpb.text.textfile._rows", "onnxpb.text.textproto._rows_by_name"),
    *("onnxpb.wire.encoder._checked_fields", "tensordata.sources.transform.casting"),
    *("tensordata.sources.transform.clamp", "tensordata.sources.transform.varints"),
    *("tensordata.sources.transform.bit_packing", "tensordata.sources.transform.narrowing"),
}
# Functions with a cache of a number of answers whose questions have texts: ours, and never those of a file.
CACHED_BY_OUR_TEXTS = {
    *("batch.run._key_digest", "flatbuffer.builder._table_layout", "flatbuffer.builder._vector"),
    *("flatbuffer.fbs._unpack", "onnxpb.text.textfile.enum_name", "onnxpb.wire.encoder._before_value"),
}
# What a module holds and fills while the program runs, and what limits it.
GROWING = {
    "cli.streams.CLOSED": "stdout and stderr",
    "cli.streams.UNPRINTED": "stdout and stderr",
    "onnx_compat.installation._installed": "one for each call of `install`",
    "onnx_compat.loading._open": "weak: files that somebody uses",
    "onnx_compat.protos.containers._classes": "the fields of the schema",
    "onnxpb.external.other_graphs._answered": "MAX_ANSWERED",
    "onnxpb.wire.schema.ENUMS": "the schema, read once",
    "onnxpb.wire.schema.MESSAGES": "the schema, read once",
    "rten.operators.ranges._EXACT": "filled by decorators",
    "rten.operators.ranges._STEPS": "filled by decorators",
    "rten.spec.REASONS": "weak, and filled by decorators",
}
UNLIMITED = ("cache", "functools.cache", "lru_cache(maxsize=None)", "lru_cache(None)")
CONTAINERS = ("dict", "set", "list", "defaultdict", "OrderedDict", "deque", "WeakSet", "WeakKeyDictionary")


def cached_functions() -> Iterator[tuple[str, str, list[str]]]:
    """Yield each function with a cache and arguments: its name, the cache, and the types of its arguments."""
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef) and node.args.args:
                name = f"{'.'.join(path.relative_to(PACKAGE).with_suffix('').parts)}.{node.name}"
                types = [ast.unparse(argument.annotation) for argument in node.args.args if argument.annotation]
                yield from ((name, ast.unparse(decorator), types) for decorator in node.decorator_list)


def test_caches_have_limits() -> None:
    """A process that reads many models keeps nothing of them: what files decide is cached with a limit."""
    assert {name for name, decorator, _ in cached_functions() if decorator in UNLIMITED} == CACHED


def test_caches_keep_no_long_texts() -> None:
    """A cache with a number of answers has texts of ours, or keeps no long ones: a file has texts of any length."""
    with_texts = {
        name
        for name, decorator, types in cached_functions()
        if decorator.startswith("lru_cache(") and any(re.search(r"\b(str|bytes|tuple)\b", kind) for kind in types)
    } - CACHED
    assert with_texts == CACHED_BY_OUR_TEXTS


def test_what_modules_hold_has_a_limit() -> None:
    """A module that fills a dict, a list or a set while the program runs is listed with what limits it."""
    growing = set()
    for path in MODULES:
        for node in tree(path).body:
            value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
            is_empty = isinstance(value, (ast.Dict, ast.List)) and not ast.unparse(value).strip("{}[]")
            if is_empty or (isinstance(value, ast.Call) and not value.args and is_container(value)):
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                growing.add(f"{'.'.join(path.relative_to(PACKAGE).with_suffix('').parts)}.{ast.unparse(target)}")
    assert growing == set(GROWING)


def is_container(value: ast.Call) -> bool:
    """Return whether a call makes an empty container."""
    return ast.unparse(value.func).partition("[")[0].rpartition(".")[2] in CONTAINERS


def test_no_frame_keeps_the_error_that_it_raises() -> None:
    """No error is raised from a variable, or from its attribute unless a `finally` lets go of it.

    The frame would keep the error, and the error the frame with its model, whose files stay open until the collector
    runs.
    """
    found = []
    for path in MODULES:
        for function in (node for node in ast.walk(tree(path)) if isinstance(node, ast.FunctionDef)):
            inside = [*ast.walk(function)]
            caught = {node.name for node in inside if isinstance(node, ast.ExceptHandler)}  # removed when it is left
            raised = {n.exc.id for n in inside if isinstance(n, ast.Raise) and isinstance(n.exc, ast.Name)}
            found += [f"{path.name}, {function.name}: {name}" for name in raised - caught if name.islower()]
            ending = {id(n) for each in inside if isinstance(each, ast.Try) and each.finalbody for n in ast.walk(each)}
            held = [n for n in inside if isinstance(n, ast.Raise) and isinstance(n.exc, ast.Attribute)]
            found += [
                f"{path.name}, {function.name}: {ast.unparse(n.exc)}"
                for n in held
                if n.exc.attr.islower() and id(n) not in ending  # not a class, as in `raise typer.Exit`
            ]
    assert found == []


def test_only_the_commands_print_and_exit() -> None:
    """`print` is used in one place, `sys.exit` and `warnings` are used nowhere."""
    for path in MODULES:
        calls = {ast.unparse(node.func) for node in ast.walk(tree(path)) if isinstance(node, ast.Call)}
        assert not calls & FORBIDDEN_CALLS - MAY_CALL.get(dotted(path), set()), path


def test_names_of_modules_say_something() -> None:
    """No module or package has a name that says nothing about its content."""
    paths = [path.relative_to(ROOT).with_suffix("") for path in (*MODULES, *TESTS)]
    assert not [path for path in paths if {*path.parts, path.name.removeprefix("test_")} & FORBIDDEN_NAMES]


def test_modules_and_functions_are_short() -> None:
    """What is above the limit of lines is listed with the reason."""
    long = {dotted(path) for path in MODULES if len(path.read_text("utf-8").splitlines()) > MAX_MODULE_LINES}
    for path in MODULES:
        for node in ast.walk(tree(path)):
            if not isinstance(node, ast.FunctionDef):
                continue
            docstring = len((ast.get_docstring(node, clean=False) or "").splitlines())
            if (node.end_lineno or 0) - node.lineno - docstring >= MAX_FUNCTION_LINES:
                long.add(f"{dotted(path)}...{node.name}")
    assert {name for name in long if "..." not in name} <= set(LONG)
    assert {name.partition("...")[2] for name in long} - {""} <= {name.rpartition(".")[2] for name in LONG}


@pytest.mark.outer
def test_every_test_states_a_behaviour() -> None:
    """Every test has a docstring that is a sentence."""
    for path in TESTS:
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test"):
                assert (ast.get_docstring(node) or "").endswith("."), f"{path}: {node.name}"

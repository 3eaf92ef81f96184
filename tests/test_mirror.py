"""The tests mirror the package: the tests of a module are found by its name, and every file of tests has its place.

The tests of `formats/ROOM/MODULE.py` are in `tests/ROOM/test_MODULE.py`, and those of its `__init__` in
`tests/ROOM/test_ROOM.py`. `THROUGH` says where the tests of the other modules are, and why; `ACROSS` has the tests of
more than one module.
"""

from __future__ import annotations

import ast
from collections import Counter
from functools import cache
from pathlib import Path

import pytest

pytestmark = pytest.mark.outer  # every file of tests is parsed
ROOT = Path(__file__).parents[1]
TESTS = ROOT / "tests"
MODULES = sorted((ROOT / "formats").rglob("*.py"))
FILES = sorted(path for path in TESTS.rglob("*.py") if "target" not in path.relative_to(TESTS).parts)
PLACES = {path.relative_to(TESTS).as_posix() for path in FILES if path.name.startswith("test_")}

# The files whose tests are also those of modules without a file of their own, with these modules and the reason.
THROUGH: dict[str, tuple[str, str]] = {
    "batch/test_run.py": ("batch.job batch.job_list batch.manifest", "a run makes its jobs, and records each"),
    "bridges/test_to_others.py": ("bridges.from_others", "what is passed out is taken back"),
    "cli/test_verbs.py": ("cli.__init__ cli.file_verbs cli.converting_verbs __main__", "commands, as users start them"),
    "cli/test_convert.py": (
        "cli.streams",
        "the same of the command `convert`",
    ),
    "cli/test_waiting.py": (
        "pictures.progress_bar batch.amount tensordata.moved",
        "what the bar shows, and where its numbers come from",
    ),
    "cli/test_looking_verbs.py": ("cli.columns", "tables and sentences in terminals of any width"),
    "cli/test_error_text.py": ("cli.report_lines cli.printing", "texts for people and for programs"),
    "cli/test_command_line.py": ("cli.typer_commands", "what typer and the rows understand of a line"),
    "codecs/test_foreign.py": ("python.extras", "packages that are missing, and what installs them"),
    "codecs/test_lookup.py": ("codecs.__init__ codecs.contract", "the lookup chooses among codecs"),
    "docs/test_docs.py": ("codec testing.__init__", "the pages and an example package use these names"),
    "editing/test_renaming.py": ("editing.edits editing.scopes", "what a new name has to find"),
    "editing/test_dims.py": (
        "editing.expressions editing.inference editing.shapes onnxpb.inference",
        "what follows from dims, and what contradicts them",
    ),
    "editing/test_operator_sets.py": (
        "editing.alike_forms editing.attribute_forms editing.node_conversion editing.written_forms",
        "the nodes of a model, and how each is converted",
    ),
    "verbs/verifying/test_faults.py": (
        "verbs.verifying.cycles verbs.verifying.dims verbs.verifying.functions verbs.verifying.graphs "
        "verbs.verifying.types",
        "models with one fault each",
    ),
    "verbs/verifying/test_versions.py": ("onnxpb.newer_parts", "what verify says of newer parts"),
    "editing/test_weights.py": ("editing.files.weight_files", "weights in files of each kind"),
    "verbs/test_extract.py": ("editing.files.tensor_files", "a weight as a file"),
    "editing/float16/test_conversion.py": (
        "editing.float16.calls editing.float16.nodes editing.float16.operators "
        "editing.float16.values editing.float16.weights",
        "models that become float16",
    ),
    "editing/joining/test_merging.py": ("editing.joining.joined_sets", "operator sets of two models"),
    "editing/test_surgery.py": (
        "editing.making editing.methods editing.ordering ir.__init__ ir.edits",
        "changes of models in memory",
    ),
    "verbs/test_edit.py": (
        "editing.metadata editing.model_edits editing.options",
        "edits as users ask for them",
    ),
    "ir/test_layouts.py": ("ir.blocked ir.channels_last", "files in either layout, and what becomes of them"),
    "ir/test_storage.py": ("ir.dtypes", "tensors of each type"),
    "onnx_compat/protos/test_classes.py": (
        "onnx_compat.protos.containers onnx_compat.protos.descriptor onnx_compat.protos.errors "
        "onnx_compat.protos.field_properties onnx_compat.protos.merging onnx_compat.protos.message "
        "onnx_compat.protos.reprs onnx_compat.protos.values onnxpb.unknown_fields",
        "the parts of one class, which is compared with that of `onnx`",
    ),
    "onnx_compat/test_io.py": (
        "onnx_compat.__init__ onnx_compat.loading onnx_compat.protos.message_files onnxpb.__init__",
        "one function reads, and these are its parts",
    ),
    "onnx_compat/test_saving.py": ("onnxpb.external_data_helper onnxpb.serialization", "what `onnx.save` goes with"),
    "onnxpb/encryption/test_crypt.py": (
        "codecs.keys onnx_compat.encrypted onnxpb.encryption.ciphers onnxpb.encryption.ciphertext",
        "a whole encrypted file, which `openssl` reads",
    ),
    "onnxpb/external/test_model.py": (
        "onnxpb.codecs onnxpb.options onnxpb.external.checksums onnxpb.external.data_files onnxpb.external.shared_data",
        "data files, with all options for them",
    ),
    "onnxpb/external/test_other_graphs.py": ("onnxpb.external.graph_search", "what it asks about each graph"),
    "onnxpb/test_transformers_js.py": ("onnxpb.external.transformers_js", "the library itself loads the files"),
    "onnxpb/test_operator_sets.py": ("onnxpb.operator_rows onnxpb.operator_types", "the rows are what it reads"),
    "onnxpb/text/test_textfile.py": ("onnxpb.text.fields", "both forms of text use these fields"),
    "onnxpb/wire/test_decoder.py": (
        "onnxpb.wire.encoder onnxpb.wire.tables",
        "what is decoded is encoded, whatever was left for later",
    ),
    "onnxzip/reading/test_reader.py": (
        "onnxzip.reading.headers onnxzip.reading.model",
        "archives that are refused, and valid ones",
    ),
    "onnxzip/test_bundles.py": ("onnxzip.reading.contents verbs.pack", "archives with several models and files"),
    "onnxzip/reading/test_graph_scan.py": ("onnxzip.reading.external_tensors", "tensors in bytes, as in memory"),
    "onnxzip/test_links.py": ("ir.archive_link onnxpb.external.archive_links onnxzip.stale_links", "linked graphs"),
    "onnxzip/writing/test_archive.py": ("onnxzip.__init__ onnxzip.options", "archives, with all options for them"),
    "pictures/test_pages.py": ("pictures.drawing", "whole pictures and pages"),
    "rten/convert/test_legalize.py": (
        "rten.convert.context rten.convert.distinct_outputs ir.functions rten.convert.refusal rten.convert.shape_names",
        "what a pass uses; each result runs in onnxruntime",
    ),
    "rten/convert/test_passes.py": ("rten.convert.loss_report", "what the passes report"),
    "rten/convert/test_scope.py": ("rten.convert.value_types", "what is known of values is true of them"),
    "rten/file/test_builder.py": (
        "flatbuffer.builder flatbuffer.forms flatbuffer.rows rten.file.buffers",
        "the buffers of .rten files, also with the shortcut of forms",
    ),
    "rten/file/test_fbs.py": ("flatbuffer.fbs", "the buffers of .rten files, and wrong ones"),
    "ort/reading/test_model.py": (
        "ort.__init__ ort.file.buffers ort.file.regions ort.file.schema ort.reading.left_out",
        "the files of onnxruntime",
    ),
    "ort/writing/test_model.py": (
        "ort.options ort.writing.encoder ort.writing.operator_rows ort.writing.operators ort.writing.preparation "
        "ort.writing.schema_functions ort.writing.types ort.writing.unheld",
        "what onnxruntime computes from our files",
    ),
    "rten/graph/test_attribute_tables.py": ("rten.graph.attributes", "attributes in both directions"),
    "rten/graph/test_encoder.py": ("rten.graph.names rten.graph.uses", "names and captures of graphs"),
    "rten/graph/test_constants.py": ("rten.types", "constants of each type"),
    "rten/onnx_loader/test_runnable.py": (
        "rten.onnx_loader.captures rten.onnx_loader.kept rten.onnx_loader.read_types",
        "RTen's ONNX loader runs what these leave",
    ),
    "rten/operators/test_historical.py": (
        "rten.operators.*",
        "every operator in every version; `test_families.py` has the rule that each is in one module, "
        "and `test_sizes.py`, `test_ordinary_input.py` and others of this folder have more of their results",
    ),
    "rten/raising/test_graphs.py": (
        "rten.graph.makers rten.raising.integers rten.raising.interface rten.raising.kinds rten.raising.model",
        "models in RTen's form, raised as a whole",
    ),
    "rten/test_model.py": ("rten.__init__ rten.options", "whole files, with all options for them"),
    "tensordata/local/test_output.py": ("tensordata.local.directory", "files take their places"),
    "onnxpb/external/test_confinement.py": ("tensordata.local.folder", "files that links lead to"),
    "tensordata/remote/test_web.py": (
        "tensordata.remote.attempts tensordata.remote.remote_file onnxzip.reading.far_entries",
        "a server answers wrongly, late or not at all",
    ),
    "tensordata/remote/test_stores.py": (
        "tensordata.remote.address tensordata.remote.upload tensordata.places",
        "addresses of all stores, read and written",
    ),
    "tensordata/replacing/test_publication.py": ("tensordata.replacing.journal tensordata.staging", "its two halves"),
    "tensordata/replacing/test_hidden.py": (
        "tensordata.interrupted tensordata.replacing.holder",
        "what lies beside a model",
    ),
    "onnxzip/writing/test_editing.py": ("tensordata.replacing.tail_replacement", "only archives are edited in place"),
    "tensordata/sources/test_source.py": ("tensordata.file", "sources in open files"),
    "tensordata/test_engine.py": ("tensordata.__init__ tensordata.tasks", "the engine executes tasks"),
    "test_import.py": ("__init__ python.handed", "what an import loads, and what is loaded later"),
    "test_remedies.py": ("errors", "each error says what helps"),
    "test_signatures.py": ("keywords", "the keywords of each function"),
    "testing/test_checks.py": ("testing.models", "the models that the checks write"),
    "verbs/test_compare.py": ("verbs.compare_elements", "models that differ in little, or not at all"),
    "verbs/test_convert.py": (
        "verbs.arguments verbs.choices verbs.link verbs.report verbs.steps.executing verbs.steps.opening "
        "verbs.steps.planning verbs.trust",
        "a conversion is a chain of these",
    ),
    "verbs/test_dry_run.py": ("tensordata.rehearsal", "a dry run is a rehearsal of the plan"),
    "verbs/test_inspect.py": ("ir.summary", "types and counts as text"),
    "verbs/test_layout.py": ("onnxzip.regions rten.file.regions", "the regions of files of each format"),
    "verbs/test_missing_data.py": ("tensordata.absent", "data files that are not there"),
    "verbs/test_model_files.py": ("tensordata.replacing.further_name verbs.relocate", "files that move together"),
    "verbs/steps/test_replacement.py": ("verbs.repair", "what a killed process leaves, and what becomes of it"),
}

# The files with tests of more than one module, by folder.
ACROSS = {
    ".": "architecture bounded_work import mirror misfits mutation option_effects permissions public_names release "
    "remedies rings types use without_docstrings",
    "cli": "bad_arguments completion convert limits mistakes surroundings waiting",
    "codecs": "planning",
    "editing": "exported tripping_models",
    "onnx_compat/protos": "behaviours unread",
    "onnxpb": "transformers_js",
    "onnxpb/encryption": "forgery",
    "onnxzip": (
        "advice bundles c_reader golden links loading_reader planted_faults other_readers readers rust_in_rten sharing "
        "translation"
    ),
    "pictures": "hostile_names",
    "rten/file": "builder fbs",
    "rten": "evaluation faults graphs leaving outcomes releases results rten_convert running_page runtime",
    "rten/convert": "malformed_nodes",
    "rten/operators": "historical learned new_operator ordinary_input sizes",
    "rten/raising": "operators suite",
    "tensordata/local": "systems",
    "tensordata/remote": "batch hostile_servers hub web",
    "verbs": "dry_run missing_data mutations neighbours",
    "verbs/verifying": "faults",
}
# The folders that mirror no room of the package. Those that have the name of a folder of the repository have its tests.
FOLDERS = {
    "faults": "system calls that fail, processes that are killed, and power cuts",
    "fuzzing": "damaged and strange input",
    "misuse": "wrong programs, for type checkers",
    "oracle": "the programs of others, and their own tests",
    "runtime": "RTen itself, as a program",
}


@cache
def tree(path: Path) -> ast.Module:
    """Return the syntax tree of a file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def has_code(path: Path) -> bool:
    """Return whether a file has more than a docstring."""
    return len(tree(path).body) > 1


def place_of(path: Path) -> str:
    """Return where the tests of a module are if it has a file of its own for them."""
    folder, name = path.relative_to(ROOT / "formats").parent, path.stem
    return (folder / f"test_{folder.name if name == '__init__' else name}.py").as_posix()


def named(words: str) -> list[str]:
    """Return the files of the modules in a row of `THROUGH`; a star stands for those with no other place."""
    found = []
    for word in words.split():
        path = ROOT.joinpath("formats", *word.split("."))
        if word.endswith("*"):
            found += [each for each in path.parent.rglob("*.py") if has_code(each) and place_of(each) not in PLACES]
        else:
            found.append(path.with_suffix(".py"))
    return found


def test_each_module_has_tests() -> None:
    """A module has a file of tests with its name, or exactly one other file in the table; the table names no others."""
    listed = Counter(path for words, _ in THROUGH.values() for path in named(words))
    own = {path for path in MODULES if place_of(path) in PLACES}
    assert {path for path in MODULES if has_code(path)} == own | listed.keys()
    assert not own & listed.keys()
    assert {1} == {*listed.values()}
    assert THROUGH.keys() <= PLACES


def test_each_file_of_tests_has_a_place() -> None:
    """A file of tests has the name of a module, is listed as that of several, or is in a folder with a subject."""
    own = {place_of(path) for path in MODULES}
    across = {
        f"{folder}/test_{name}.py".removeprefix("./") for folder, names in ACROSS.items() for name in names.split()
    }
    apart = {place for place in PLACES if place.partition("/")[0] in FOLDERS or is_of_the_repository(place)}
    assert PLACES == own & PLACES | across | apart
    assert set() == own & across | own & apart | across & apart


def is_of_the_repository(place: str) -> bool:
    """Return whether tests are those of another folder of the repository, whose name they have."""
    folder = place.split("/")[0]
    return "/" in place and (ROOT / folder).is_dir() and not (ROOT / "formats" / folder).is_dir()


def test_folders_of_tests_are_rooms() -> None:
    """A folder with tests has the name of a room, of a folder of the repository, or of a subject; none is a package."""
    folders = {path.parent.relative_to(TESTS) for path in FILES if path.name.startswith("test_")}
    rooms = {path.parent.relative_to(ROOT / "formats") for path in MODULES}
    other = {folder.as_posix() for folder in folders - rooms}
    assert other <= {*FOLDERS, *(folder for folder in other if is_of_the_repository(f"{folder}/"))}
    assert not [path for path in FILES if path.name == "__init__.py"]
    assert all((TESTS / folder).is_dir() for folder in FOLDERS)


def shared_modules() -> list[Path]:
    """Return the modules at the top of the tests that tests import."""
    return sorted(
        path
        for path in TESTS.glob("*.py")
        if path.stem not in ("conftest", "mutation", "stubs") and path.stem[:5] != "test_"
    )


@pytest.mark.parametrize("path", shared_modules(), ids=lambda path: path.stem)
def test_what_tests_share_stands_with_them(path: Path) -> None:
    """A module at the top of the tests is used in several rooms; what one room uses stands in that room."""
    rooms = set()
    for file in FILES:
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.ImportFrom):
                names = {node.module}
            else:
                names = {alias.name for alias in node.names} if isinstance(node, ast.Import) else set()
            if path.stem in names:
                rooms.add(file.relative_to(TESTS).parts[0])
    assert len(rooms) > 1


def test_no_two_shared_modules_have_one_name(pytestconfig: pytest.Config) -> None:
    """Modules and scripts that tests import by their name alone differ in it, or a test would get the other one."""
    folders = {*pytestconfig.getini("pythonpath"), ROOT / "docs" / "pictures"}
    names = Counter(
        path.stem
        for folder in folders
        for path in folder.glob("*.py")
        if not path.name.startswith(("test_", "__", "conftest"))
    )
    assert [name for name, count in names.items() if count > 1] == []

"""What other packages say when they fail stays out of our errors: no text of theirs, and what is here says why."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from formats.errors import FormatError

ROOT = Path(__file__).parents[1]
MODULES = sorted((ROOT / "formats").rglob("*.py"))
# The functions whose errors have the text of another package's exception, and why.
ALLOWED = {
    "codecs.lookup._load": "a codec of another package cannot be imported: only its own error says why",
    "extras.needed": "a package cannot be imported: only its own error says why",
    "onnxpb.text.protojson.parse_json": "the standard library says what JSON lacks, in constant words",
    "onnxpb.text.textproto.string": "words of `unescape`, and none of Python",
    "onnxpb.inference_process._inferred": "it is only compared",
    "onnxpb.limited_process.serve": "what onnx says of a graph, cut to one line of at most 300 characters",
    "bridges.results._answer": "what onnxruntime says of a model that it runs, cut to one line",
    "tensordata.remote.stores.filesystem_of": "only the store knows what it wants; secrets are taken out",
    "verbs.choices._texts_in_file": "the standard library says what JSON lacks, in constant words",
}
OWN_PARTS = {"args", "__cause__", "errno", "filename", "lineno", "colno", "start", "encoding"}  # no words


def types_of(handler: ast.ExceptHandler, module: Any) -> tuple[Any, ...]:
    """Return the exceptions that a handler catches; an exception of a package that the function imports is `None`."""
    try:
        caught = eval(ast.unparse(handler.type or ast.Name("BaseException")), vars(module))
    except NameError:
        return (None,)
    return caught if isinstance(caught, tuple) else (caught,)


def is_foreign(kind: Any) -> bool:
    """Whether the words of an exception are not ours, and not those of the system."""
    return kind is None or not (issubclass(kind, (FormatError, OSError)) or kind.__module__.startswith("formats"))


def words_of(node: ast.AST, name: str) -> Iterator[ast.AST]:
    """Yield where the words of the exception `name` become a text."""
    for part in ast.walk(node):
        value = part.value if isinstance(part, ast.FormattedValue) else None
        if isinstance(part, ast.Call) and ast.unparse(part.func) in ("str", "repr") and part.args:
            value = part.args[0]
        if isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name) and value.value.id == name:
            if value.attr not in OWN_PARTS:
                yield part
        elif isinstance(value, ast.Name) and value.id == name:
            yield part


def functions_with_foreign_words(path: Path) -> Iterator[str]:
    """Yield the functions of a module that put the text of a foreign exception into one of ours."""
    dotted = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for function in (node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)):
        for handler in (node for node in ast.walk(function) if isinstance(node, ast.ExceptHandler) and node.name):
            has_words = any([*words_of(ast.Module(handler.body, []), handler.name or "")])
            if has_words and any(map(is_foreign, types_of(handler, importlib.import_module(dotted)))):
                yield f"{dotted.removeprefix('formats.')}.{function.name}"


def test_no_error_has_the_text_of_a_foreign_exception() -> None:
    """An error has our words, or those of the system; the few others are listed with the reason."""
    found = {name for path in MODULES for name in functions_with_foreign_words(path)}
    assert found == set(ALLOWED)


@pytest.mark.parametrize(
    "code,count",
    [
        ("try: f()\nexcept ValueError as e: raise E(f'no: {e}')", 1),
        ("try: f()\nexcept ValueError as e: raise E(str(e))", 1),
        ("try: f()\nexcept ValueError as e: raise E(f'no: {e.msg}')", 1),
        ("try: f()\nexcept ValueError as e: raise E(f'line {e.lineno}') from e", 0),
    ],
)
def test_the_words_of_an_exception_are_found(code: str, count: int) -> None:
    """The test above finds each way to take over a text."""
    assert len([*words_of(ast.parse(code), "e")]) == count

"""Names of dims that are computed from others, as exporters write them: "batch*seq", "(s0 - 1)//2 + 1"."""

from __future__ import annotations

import ast
import operator
import re
from functools import cache
from typing import Any

MAX_CHARACTERS = 500
MAX_DIGITS = 20
LARGEST = (1 << 63) - 1

_WORD = re.compile(r"[A-Za-z_]\w*")
_OPERATORS: dict[type, Any] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_FUNCTIONS = {"max": max, "Max": max, "min": min, "Min": min}


def words_of(text: str) -> set[str]:
    """The names of other dims in the name of a dim, if that is computed from them; otherwise the name itself."""
    if _WORD.fullmatch(text) or _parsed(text) is None:
        return {text}
    return {word for word in _WORD.findall(text) if word not in _FUNCTIONS}


def replaced(text: str, name: str, value: int | str) -> int | str | None:
    """The dim after another dim got a value or a name: a size, a text, or `None` if it is no possible size."""
    if text == name:
        return value
    if name not in words_of(text):
        return text
    text = _WORD.sub(lambda word: str(value) if word[0] == name else word[0], text)
    if words_of(text):
        return text
    try:
        size = _computed(_parsed(text))
    except (ArithmeticError, ValueError):
        return None
    return size if 0 <= size <= LARGEST else None


@cache
def _parsed(text: str) -> ast.expr | None:
    """The expression, or `None` if the text is just a name."""
    if len(text) > MAX_CHARACTERS or re.search(rf"\d{{{MAX_DIGITS}}}", text):
        return None
    try:
        found = ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    return found if _is_arithmetic(found) else None


def _is_arithmetic(found: ast.expr) -> bool:
    if isinstance(found, ast.BinOp):
        return type(found.op) in _OPERATORS and _is_arithmetic(found.left) and _is_arithmetic(found.right)
    if isinstance(found, ast.UnaryOp):
        return isinstance(found.op, ast.USub) and _is_arithmetic(found.operand)
    if isinstance(found, ast.Call):
        is_known = isinstance(found.func, ast.Name) and found.func.id in _FUNCTIONS
        return is_known and bool(found.args) and not found.keywords and all(map(_is_arithmetic, found.args))
    return isinstance(found, ast.Name) or (isinstance(found, ast.Constant) and type(found.value) is int)


def _computed(found: Any) -> int:
    if isinstance(found, ast.BinOp):
        result: int = _OPERATORS[type(found.op)](_computed(found.left), _computed(found.right))
        if abs(result) > LARGEST:
            raise OverflowError(result)
        return result
    if isinstance(found, ast.UnaryOp):
        return -_computed(found.operand)
    if isinstance(found, ast.Call):
        return int(_FUNCTIONS[found.func.id](map(_computed, found.args)))  # type: ignore[attr-defined]  # a name
    return int(found.value)

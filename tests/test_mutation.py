"""The tool that changes the code in one place at a time."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests import mutation


@pytest.mark.outer
def test_a_seed_always_gives_the_same_mutants() -> None:
    """The same seed chooses the same places, and each room has its share."""
    found = mutation.chosen(29, 100)
    assert mutation.chosen(29, 100) == found != mutation.chosen(30, 100)
    assert len({(mutant.path, mutant.start, mutant.kind) for _, mutant in found}) == 100
    rooms = {path.relative_to(mutation.ROOT / "formats").parts[0] for path in mutation.MODULES}
    assert {room for room in rooms if "." not in room} | {"top", "rust", "js"} == {room for room, _ in found}


@pytest.mark.outer
def test_each_mutant_is_another_program() -> None:
    """A mutant differs from the module in one place, and Python can still read it."""
    for _, mutant in mutation.chosen(29, 100):
        data = mutant.path.read_bytes()
        changed = data[: mutant.start] + mutant.new + data[mutant.stop :]
        assert changed != data
        if mutant.path.suffix == ".py":
            assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(data))


@pytest.mark.parametrize(
    ("code", "changes"),
    [
        ("if a < b:\n    c()", ["if not (a < b):\n    c()", "if a <= b:\n    c()", "if a < b:\n    pass"]),
        ("x = f(a, b) and True", ["x = f(a, b) or True", "x = f(b, a) and True", "x = f(a, b) and False"]),
        ("def f(a: int = 7) -> 'x':\n    return a", ["def f(a: int = 8) -> 'x':\n    return a",
                                                  "def f(a: int = 7) -> 'x':\n    return None"]),
        ('raise E(f"{a + 1}", 2)', ["pass"]),
        ('"""1 < 2"""', []),
        ("if TYPE_CHECKING:\n    x = 1", []),
    ],
)  # fmt: skip
def test_the_places_of_a_module(code: str, changes: list[str], tmp_path: Path) -> None:
    """Operators, conditions, numbers, statements, arguments and results are changed; messages and types are not."""
    (tmp_path / "m.py").write_text(code)
    found = mutation.of_module(tmp_path / "m.py")
    assert sorted(changes) == sorted(code[: each.start] + each.new.decode() + code[each.stop :] for each in found)

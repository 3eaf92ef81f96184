"""Writes `formats/rten/operators/families.py`, by which a conversion loads only the operators that it uses."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple

LINE_LENGTH = 120
ROOT = Path(__file__).resolve().parents[1]
HEAD = '''"""Which module has each operator: a conversion imports the families of the operators that it meets.

Written by schemas/generate.py from the modules of this folder; do not edit.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
'''


class Family(NamedTuple):
    """A module with operators: their names by domain, and whether some have foldings."""

    name: str
    operators: dict[str, list[str]]
    has_foldings: bool


def families() -> list[Family]:
    """The modules of operators that define some."""
    from formats.rten.operators.shared.spec import OperatorSpec

    found = []
    for path in sorted((ROOT / "formats" / "rten" / "operators").glob("[a-z]*.py")):
        if path.stem == "families":
            continue
        module = import_module(f"formats.rten.operators.{path.stem}")
        specs = [value for value in vars(module).values() if isinstance(value, OperatorSpec)]
        operators: dict[str, list[str]] = {}
        for spec in specs:
            operators.setdefault(spec.domain, []).append(spec.name)
        if specs:
            found.append(Family(path.stem, operators, any(spec.foldings for spec in specs)))
    return found


def generate() -> str:
    """The text of the module."""
    found = families()
    lines = [HEAD, "FAMILIES: Final[Mapping[str, Mapping[str, str]]] = {  # family: domain: names of operators"]
    for family in found:
        lines.append(f'    "{family.name}": {{')
        for domain, names in sorted(family.operators.items()):
            lines += _entry(domain, " ".join(sorted(names)))
        lines.append("    },")
    folding = [f'"{family.name}"' for family in found if family.has_foldings]
    lines += ["}", f"WITH_FOLDINGS: Final = ({', '.join(folding)}{',' * (len(folding) == 1)})", ""]
    return "\n".join(lines)


def _entry(domain: str, names: str) -> list[str]:
    """The entry of a domain, in lines as the formatter has them."""
    line = f'        "{domain}": "{names}",'
    if len(line) <= LINE_LENGTH:
        return [line]
    *parts, last = wrap(names, LINE_LENGTH - 15)  # beside the indentation, the quotes and a space
    inner = [f'            "{part} "' for part in parts]
    return [f'        "{domain}": (', *inner, f'            "{last}"', "        ),"]

"""Writes `formats/rten/operators/families.py`, by which a conversion loads only the operators that it uses."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from formats.rten.spec import Row

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
    newer: dict[str, int]  # operators and fields that the first release lacks: the number of that which added each


def families() -> list[Family]:
    """The modules of operators that define some."""
    from formats.rten.operators import specs_in

    all_families = []
    for path in sorted((ROOT / "formats" / "rten" / "operators").glob("[a-z]*.py")):
        if path.stem == "families":
            continue
        specs = specs_in(path.stem)
        operators: dict[str, list[str]] = {}
        for spec in specs:
            operators.setdefault(spec.domain, []).append(spec.name)
        if specs:
            newer = dict(pair for spec in specs if spec.to_rten.row for pair in _newer(spec.name, spec.to_rten.row))
            all_families.append(Family(path.stem, operators, any(spec.to_onnx.foldings for spec in specs), newer))
    return all_families


def _newer(name: str, row: Row) -> Iterator[tuple[str, int]]:
    """What newer releases added of an operator: itself, and its fields, as `Operator.field`."""
    from formats.rten.target import RELEASES

    if row.since > RELEASES[0]:
        yield name, RELEASES.index(row.since)
    for field in row.fields:
        if field.since > RELEASES[0]:
            yield f"{name}.{field.onnx_name}", RELEASES.index(field.since)


def generate() -> str:
    """The text of the module."""
    all_families = families()
    lines = [HEAD, "FAMILIES: Final[Mapping[str, Mapping[str, str]]] = {  # family: domain: names of operators"]
    for family in all_families:
        lines += _entry(family.name, sorted(family.operators.items()))
    folding = [f'"{family.name}"' for family in all_families if family.has_foldings]
    lines += [
        "}",
        "# The place among RTen's known releases of the one that added an operator, or a field of one.",
    ]
    newer = sorted(pair for family in all_families for pair in family.newer.items())
    lines += ["NEWER: Final[Mapping[str, int]] = {", *(f'    "{name}": {since},' for name, since in newer)]
    lines += ["}", f"WITH_FOLDINGS: Final = ({', '.join(folding)}{',' * (len(folding) == 1)})", ""]
    return "\n".join(lines)


def _entry(family: str, operators: list[tuple[str, list[str]]]) -> list[str]:
    """The entry of a family, in lines as the formatter has them."""
    texts = [(domain, " ".join(sorted(names))) for domain, names in operators]
    entries = ", ".join(f'"{domain}": "{names}"' for domain, names in texts)
    line = f'    "{family}": {{{entries}}},'
    if len(line) <= LINE_LENGTH:
        return [line]
    lines = [f'    "{family}": {{']
    for domain, names in texts:
        line = f'        "{domain}": "{names}",'
        if len(line) <= LINE_LENGTH:
            lines.append(line)
            continue
        *parts, last = wrap(names, LINE_LENGTH - 15)  # beside the indentation, the quotes and a space
        inner = [f'            "{part} "' for part in parts]
        lines += [f'        "{domain}": (', *inner, f'            "{last}"', "        ),"]
    return [*lines, "    },"]

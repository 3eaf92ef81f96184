"""What is known about each operator, in one module for each family.

`SPECS` has the operators of ONNX by name, `BY_DOMAIN` those of all domains. Both import the family of an operator when
they are asked for it; `families.py` says which that is. The module of a family has its operators as `OperatorSpec`s,
each after the functions that it uses. `formats/rten/spec.py` says what a spec is, `rules.py` and `ranges.py`
have what several families share, and `sampling.py` has the interpolation that `resize.py` writes.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final, TypeVar

from formats.ir import STANDARD_DOMAINS
from formats.rten.operators.families import FAMILIES, WITH_FOLDINGS
from formats.rten.spec import OperatorSpec

if TYPE_CHECKING:
    from formats.ir.model import Node
    from formats.rten.spec import Folding

Key = TypeVar("Key", bound=Hashable)


class _Specs(Mapping[Key, OperatorSpec]):
    """Operators by key, each imported with its family when it is first looked up."""

    def __init__(self, family_of: Mapping[Key, str], key_of: Callable[[OperatorSpec], Key]) -> None:
        self._family_of = family_of
        self._key_of = key_of
        self._by_key: dict[Key, OperatorSpec] = {}

    def __getitem__(self, key: Key) -> OperatorSpec:
        """The operator. Raises: KeyError if there is none."""
        if key not in self._by_key:
            self._by_key |= {self._key_of(spec): spec for spec in specs_in(self._family_of[key])}
        return self._by_key[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._family_of)

    def __len__(self) -> int:
        return len(self._family_of)


@cache
def specs_in(family: str) -> tuple[OperatorSpec, ...]:
    """The operators of a family: its specs, and those in its table `REWRITTEN`, if it has one."""
    module = import_module(f"formats.rten.operators.{family}")
    specs = [value for value in vars(module).values() if isinstance(value, OperatorSpec)]
    return (*specs, *getattr(module, "REWRITTEN", ()))


@cache
def foldings() -> Mapping[str | None, list[Folding]]:
    """The foldings of all operators, by the operator of the last node."""
    by_last: dict[str | None, list[Folding]] = {}
    specs = [spec for family in WITH_FOLDINGS for spec in specs_in(family)]
    for folding in (folding for spec in specs for folding in spec.to_onnx.foldings):
        for last in folding.last:
            by_last.setdefault(last, []).append(folding)
    return by_last


_BY_PLACE: Final = [
    (domain, name, family)
    for family, domains in FAMILIES.items()
    for domain, names in domains.items()
    for name in names.split()
]


def _place_of(spec: OperatorSpec) -> tuple[str, str]:
    return spec.domain, spec.name


def _name_of(spec: OperatorSpec) -> str:
    """The name of an operator of ONNX; operators of other domains may have the same."""
    return "" if spec.domain else spec.name


BY_DOMAIN: Final[Mapping[tuple[str, str], OperatorSpec]] = _Specs(
    {(domain, name): family for domain, name, family in _BY_PLACE}, _place_of
)
SPECS: Final[Mapping[str, OperatorSpec]] = _Specs(
    {name: family for domain, name, family in _BY_PLACE if not domain}, _name_of
)


def spec_of(node: Node) -> OperatorSpec | None:
    """What is known about a node's operator; `None` if the operator is not known."""
    if node.domain in STANDARD_DOMAINS:
        return SPECS.get(node.op_type or "")
    return BY_DOMAIN.get((node.domain or "", node.op_type or ""))

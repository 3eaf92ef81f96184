"""The contract of codecs as checks, for tests of any codec, with any test runner.

    import formats.testing
    import pytest
    from my_package import CODEC

    @pytest.mark.parametrize("check", formats.testing.contract(CODEC), ids=str)
    def test_contract(check, tmp_path):
        check(tmp_path)

docs/codecs.md says what the contract is. All codecs of this package pass the same checks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from formats.codecs.contract import READ_DEFAULTS
from formats.testing.checks import OF_CODEC, OF_MODEL, NotSupported, Subject
from formats.testing.models import MODELS, linear

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from formats.codecs.contract import Codec, ReadOptions
    from formats.ir.model import Model

__all__ = ["MODELS", "Check", "contract", "linear"]


class Check(NamedTuple):
    """A part of the contract, for one model and one choice of options."""

    name: str
    run: Callable[[Path], None]

    def __call__(self, folder: Path) -> None:
        """Run the check; files are created in `folder`, which is empty.

        Raises: AssertionError, or an exception that the codec must not raise.
        """
        self.run(folder)

    def __str__(self) -> str:
        return self.name


def contract(
    codec: Codec,
    *,
    options: Iterable[Any] = (),
    reading: ReadOptions = READ_DEFAULTS,
    models: Mapping[str, Callable[[], Model]] | None = None,
    excused: Mapping[str, str] | None = None,
) -> list[Check]:
    """All checks of a codec.

    `options` are instances of the codec's class of options for writing, besides the defaults; if an option without a
    default is needed, such as a key, the first instance is used. `reading` are the options for reading its files.
    `models` are functions that make models, by name; by default they are `MODELS`. `excused` are the names of checks
    that the format cannot pass, each with the reason: "reads_no_weight" for one that is compressed, "same_bytes_again"
    for one with a time in it.

    Raises: ValueError if an excused check does not exist.
    """
    excused = excused or {}
    if unknown := excused.keys() - {check.__name__ for check in (*OF_CODEC, *OF_MODEL)}:
        raise ValueError(f"no check is called {', '.join(sorted(unknown))}")
    chosen = [*options] or [codec.options()]
    of_codec = [check for check in OF_CODEC if check.__name__ not in excused]
    checks = [Check(check.__name__, _bound(check, Subject(codec, chosen[0], reading))) for check in of_codec]
    for number, choice in enumerate(chosen):
        subject = Subject(codec, choice, reading)
        for name, make in (MODELS if models is None else models).items():
            suffix = f"-{number}" if number else ""
            for check_model in OF_MODEL:
                if check_model.__name__ not in excused:
                    run = _bound(check_model, subject, make)
                    checks.append(Check(f"{check_model.__name__}-{name}{suffix}", run))
    return checks


def _bound(check: Callable[..., None], *arguments: Any) -> Callable[[Path], None]:
    def run(folder: Path) -> None:
        try:
            check(*arguments, folder)
        except NotSupported:
            return

    return run

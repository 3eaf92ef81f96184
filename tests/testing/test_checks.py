"""Every codec passes the contract, and the checks find codecs that break it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import formats
from formats.codecs import lookup
from formats.codecs.contract import READ_DEFAULTS, Codec, Match, ReadOptions, Region
from formats.onnxpb.options import CryptOptions, OnnxOptions, TextOptions
from formats.onnxzip.options import ArchiveOptions
from formats.options import SWITCH, count, option
from formats.rten.options import RtenOptions
from formats.tensordata.plan import FilePlan, PlacedWrite
from formats.tensordata.sources.source import Literal
from formats.testing import Check, contract
from tests.changed_codecs import changed

KEY = formats.Key.of(bytes(range(32)))
# Settings for each codec besides the defaults, and checks that its format cannot pass, with the reason.
SETTINGS: dict[str, dict[str, Any]] = {
    "onnx": {"options": [OnnxOptions(), OnnxOptions(external_data=True, size_threshold=0, one_file_per_tensor=True)]},
    "onnxz": {"options": [ArchiveOptions(), ArchiveOptions(alignment=4096, size_threshold=0, dedup=True)]},
    "rten": {"options": [RtenOptions(), RtenOptions(rten_version=1)]},
    "onnxc": {
        "options": [CryptOptions(key=KEY), CryptOptions(key=KEY, encryption=2)],
        "reading": ReadOptions(key=KEY),
        "excused": {
            "reads_no_weight": "all is decrypted at once",
            "same_bytes_again": "each file has a nonce",
            "damage_is_an_error": "each attempt derives a key for a tenth of a second; test_crypt.py makes fewer",
        },
    },
    "textproto": {
        "options": [TextOptions(), TextOptions(external_data=False)],
        "excused": {"reads_no_weight": "weights are text"},
    },
    "json": {
        "options": [TextOptions(), TextOptions(external_data=False)],
        "excused": {"reads_no_weight": "weights are text"},
    },
}


IN_INNER_RING = ("onnx", "onnxz", "rten")


def checks() -> list[Any]:
    """Return the contract of every installed codec."""
    return [
        pytest.param(check, id=f"{codec.name}-{check}", marks=[pytest.mark.outer] * (codec.name not in IN_INNER_RING))
        for codec in lookup.codecs()
        for check in contract(codec, **SETTINGS.get(codec.name, {}))
    ]


@pytest.mark.sample(3)
@pytest.mark.parametrize("check", checks())
def test_contract(check: Check, tmp_path: Path) -> None:
    """Every codec passes every check of the contract, for every model."""
    check(tmp_path)


# Codecs that break the contract


ONNX = lookup.by_name("onnx")


@dataclass
class Thawed:
    """Options that can be changed."""

    level: int = 1


@dataclass(frozen=True)
class Demanding:
    """Options with a required one."""

    level: int


@dataclass(frozen=True)
class Taking:
    """Options with a name that every conversion uses."""

    threads: int = option(1, count(1), "Use N threads.")


@dataclass(frozen=True)
class Bending:
    """Options with a name that another format uses, as a switch."""

    alignment: bool = option(False, SWITCH, "Align.")


def reading(change: Callable[[Any], Any]) -> Codec:
    """Return ONNX with a change to the model that was read."""

    def read(source: Any, path: Any, options: Any = READ_DEFAULTS) -> Any:
        return change(ONNX.read(source, path, options))

    return changed(ONNX, read=read)


def planning(change: Callable[[Any, Path], Any], before: Callable[[Any], None] = lambda model: None) -> Codec:
    """Return ONNX with a change to the plan, or to the model before."""

    def plan(model: Any, destination: Path, options: Any) -> Any:
        before(model)
        return change(ONNX.plan(model, destination, OnnxOptions()), destination)

    return changed(ONNX, plan=plan)


def forget_names(model: Any) -> Any:
    """Return the model without names of nodes."""
    for node in model.graph.node:
        node.name = None
    return model


def weights_in_memory(model: Any) -> Any:
    """Return the model with all weights read."""
    for tensor in model.graph.initializer:
        if tensor.raw_data is not None:
            tensor.raw_data = Literal(tensor.raw_data.read())
    return model


def fail_on_damage(source: Any, path: Any, options: Any = READ_DEFAULTS) -> Any:
    """Read no more than necessary, and fail on damage."""
    try:
        return ONNX.read(source, path, options)
    except formats.FormatError as error:
        raise KeyError("graph") from error


def with_time(plan: Any, destination: Path) -> Any:
    """Return the plan with a counter at the end of the file."""
    ticks.append(0)
    file = plan.files[-1]
    write = PlacedWrite(file.nbytes, Literal(b"\x42\x00" + b"\x1a\x02%02d" % (len(ticks) % 100)))
    return plan._replace(files=(*plan.files[:-1], file._replace(nbytes=file.nbytes + 6, writes=(*file.writes, write))))


def touch(plan: Any, destination: Path) -> Any:
    """Return the plan, and create a file while planning."""
    destination.with_name("touched").touch()
    return plan


def no_trace(plan: Any, destination: Path) -> Any:
    """Return the plan with another file after the model."""
    return plan._replace(files=(*plan.files, FilePlan(destination.with_name("more"), 0, ())))


def refuse(model: Any) -> None:
    """Refuse every model."""
    raise formats.EncodeError("no")


def rename(model: Any) -> None:
    """Give the model a name."""
    model.graph.name = "mine"


ticks: list[int] = []
BROKEN: dict[str, tuple[Codec, str]] = {
    "forgets in silence": (reading(forget_names), "keeps_models-small"),
    "reads weights": (reading(weights_in_memory), "reads_no_weight"),
    "other errors": (changed(ONNX, read=fail_on_damage), "damage_is_an_error"),
    "claims all": (changed(ONNX, sniff=lambda head, nbytes: Match.STRONG), "sniffing_takes_anything"),
    "claims nothing": (changed(ONNX, sniff=lambda head, nbytes: Match.NONE), "own_files_are_recognised-small"),
    "fails to sniff": (changed(ONNX, sniff=lambda head, nbytes: Match(head[3] * 0)), "sniffing_takes_anything"),
    "writes the time": (planning(with_time), "same_bytes_again-small"),
    "writes in planning": (planning(touch), "plans_are_sound-small"),
    "model not last": (planning(no_trace), "plans_are_sound-small"),
    "changes the model": (planning(lambda plan, path: plan, rename), "models_stay_as_they_are-small"),
    "refuses all": (planning(lambda plan, path: plan, refuse), "holds_a_model"),
    "capital": (changed(ONNX, name="Mine"), "declaration"),
    "no dot": (changed(ONNX, name="mine", extensions=("mine",)), "declaration"),
    "taken extension": (changed(ONNX, name="mine", extensions=(".rten",)), "declaration"),
    "thawed options": (changed(ONNX, options=Thawed), "declaration"),
    "taken option": (changed(ONNX, name="mine", extensions=(".mine",), options=Taking), "declaration"),
    "bent option": (changed(ONNX, name="mine", extensions=(".mine",), options=Bending), "declaration"),
    "own operators in silence": (changed(ONNX, domain="mine"), "own_operators_are_raised-small"),
    "wrong regions": (
        changed(ONNX, regions=lambda source: [Region(0, source.nbytes + 1, "model", "")]),
        "what_is_told_holds-small",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_breaks_the_contract_is_found(kind: str, tmp_path: Path) -> None:
    """A codec that breaks part of the contract fails the check for it, which ONNX passes."""
    codec, name = BROKEN[kind]
    for tried, passes in ((ONNX, True), (codec, False)):
        options = [tried.options()]
        (check,) = (check for check in contract(tried, options=options) if str(check) == name)
        folder = tmp_path / str(passes)
        folder.mkdir()
        if passes:
            check(folder)
        else:
            with pytest.raises((AssertionError, KeyError, IndexError, formats.OptionError)):
                check(folder)


def test_options_without_a_default_are_found(tmp_path: Path) -> None:
    """Every option must have a default, so that a format can be written without any."""
    codec = changed(ONNX, options=Demanding)
    (check,) = (check for check in contract(codec, options=[Demanding(1)]) if str(check) == "declaration")
    with pytest.raises(AssertionError, match="level must have a default"):
        check(tmp_path)


def test_excuses_are_for_checks_that_exist() -> None:
    """An exception must name an existing check, which is then omitted."""
    with pytest.raises(ValueError, match="no check is called same_byte"):
        contract(ONNX, excused={"same_byte": "a slip"})
    names = {str(check) for check in contract(ONNX, excused={"reads_no_weight": "text"})}
    assert "reads_no_weight" not in names
    assert "declaration" in names


def test_the_kit_needs_no_test_runner(python: Callable[..., Any]) -> None:
    """The checks run without pytest, and without onnx."""
    code = (
        "import sys, tempfile, pathlib; sys.modules['pytest'] = sys.modules['onnx'] = None\n"
        "from formats.codecs import lookup as registry; from formats import testing\n"
        "checks = testing.contract(registry.by_name('onnxz'))\n"
        "for check in checks[:3]: check(pathlib.Path(tempfile.mkdtemp()))\n"
        "print(len(checks) > 40)"
    )
    done = python("-c", code)
    assert ("True\n", "") == (done.stdout, done.stderr)

"""Runs each command line of `tests/routes.py` with damaged and strange files, in this process.

`python tests/fuzzing/command_lines.py [VERB ...] [--inputs N] [--seed S]` gives each verb N inputs, shared out among
its command lines and the files that each of them reads. An input takes the place of one file. Then the command must say
in its own words what is wrong, leave nothing behind, change no file if it fails, and write what our reader reads.

An input that fails is kept in a folder, and `python tests/fuzzing/command_lines.py VERB --input FILE` tries it again.
"""

from __future__ import annotations

import argparse
import faulthandler
import functools
import gc
import io
import json
import os
import random
import re
import shutil
import struct
import sys
import tempfile
import time
import traceback
import warnings
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import formats
from formats.cli import process, streams, typer_commands
from formats.codecs.keys import Key
from formats.errors import ExternalDataError, FormatError, OptionError
from formats.onnxpb.encryption import crypt
from tests import commands
from tests.fuzzing import fuzz
from tests.routes import LINES, make_folder
from tests.systems import open_files

# Command lines that read no file, and why.
WITHOUT_FILES = {
    "completion": "it reads nothing",
    "repair": "it reads only hidden files, which tests/fuzzing/records.py changes",
    "DestinationOptions.out": "this command line is refused",
    "OutputOptions.debug": "its file is missing",
}
MODELS = {".onnx": "onnx", ".bin": "onnx", ".rten": "rten2", ".onnxz": "onnxz", ".ort": "ort", ".onnxc": "onnxc"}
MODELS |= {".textproto": "textproto"}
WRITTEN = {*MODELS, ".json"} - {".bin"}
WITHOUT_DATA = {"--no-data", "--strip-weights"}  # which write a model whose data files are missing
AFTER_WORK = {"--check", "--check-inputs"}  # which run both models when the new one is there
COPYING = ("cp", "mv", "pack", "unpack")  # the bytes of what they read
OURS = (FormatError, OptionError, OSError)
LINE_OF_ERROR = re.compile(r"(formats: )?error: |  ")
WATCHED = 20  # inputs, which together may take as long as each may wait: the machine may have other work
SHORTEST_TEXT = 6  # of another package, that is recognised in a message
COMMAND_OF = functools.cache(typer_commands.command_of)  # which takes longer than a small command itself
Change = Callable[[random.Random, Sequence[bytes]], bytes]


def changed_arrays(rng: random.Random, data: bytes) -> bytes:
    """Return a .npz file with another entry, which is packed well."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as given, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        for name in given.namelist():
            head, rest = given.read(name)[:10], given.read(name)[10:]
            end = rest.index(b"\n") + 1
            text = fuzz.changed_text(rng, rest[:end], [rest[:end]])
            if rng.random() < 0.8:  # the size of the header is right
                head = head[:8] + struct.pack("<H", len(text) % (1 << 16))
            new.writestr(name, head + text + rest[end:])
    return made.getvalue()


def changed_safetensors(rng: random.Random, data: bytes) -> bytes:
    """Return a .safetensors file with another header, whose size is right."""
    end = 8 + int.from_bytes(data[:8], "little")
    header = fuzz.json_change(rng, [data[8:end]])
    return len(header).to_bytes(8, "little") + header + data[end:]


CHANGES: dict[str, Change] = {
    ".npz": fuzz.bytes_or(changed_arrays),
    ".safetensors": fuzz.bytes_or(changed_safetensors),
    ".json": fuzz.json_change,
    ".jsonl": fuzz.json_change,
    ".txt": fuzz.text_change,
}


def change_of(file: str) -> Change:
    """Return the function that changes the content of a file."""
    suffix = Path(file).suffix
    if file == "m.json":
        suffix = ".json model"
    kind = {**MODELS, ".json model": "json"}.get(suffix)
    if kind is None:
        return CHANGES.get(suffix, lambda rng, seeds: fuzz.changed_bytes(rng, rng.choice(seeds), seeds))
    target = fuzz.TARGETS["onnxz-lenient" if file == "stored.onnxz" else kind]
    return lambda rng, seeds: target.change(rng, seeds if rng.random() < 0.6 else target.seeds())


# The folders


def content(folder: Path) -> dict[str, bytes | None]:
    """Return all files below a folder with their bytes, and the folders."""
    found: dict[str, bytes | None] = {}
    for where, folders, files in os.walk(folder):
        inside = where[len(str(folder)) + 1 :] + "/" if where != str(folder) else ""
        found.update((inside + name, None) for name in folders)
        for name in files:
            with open(f"{where}/{name}", "rb") as file:
                found[inside + name] = file.read()
    return found


class Box:
    """A working folder that becomes a copy of another one again and again."""

    def __init__(self, root: Path) -> None:
        self.path = root / "box"
        self.path.mkdir()
        self.temporary = root / "temporary"
        self.temporary.mkdir()
        tempfile.tempdir = str(self.temporary)
        os.chdir(self.path)

    def fill(self, template: Path, before: dict[str, bytes | None]) -> None:
        """Make it a copy of the template, which has this content."""
        now = content(self.path)
        for name in sorted(now.keys() - before.keys(), reverse=True):  # files before their folder
            path = self.path / name
            path.rmdir() if now[name] is None else path.unlink()
        for name, data in before.items():
            if now.get(name, "") != data:
                path = self.path / name
                path.mkdir(parents=True) if data is None else shutil.copy2(template / name, path)


OPENED: set[str] = set()


def note_opened(event: str, arguments: tuple[Any, ...]) -> None:
    """Note the names of the files that are opened."""
    if event == "open":
        OPENED.add(Path(os.fsdecode(arguments[0])).name if not isinstance(arguments[0], int) else "")


# The judgement


class Use:
    """A command line in the copy of a folder, with an input in the place of a file."""

    def __init__(self, line: str, box: Box, template: Path, before: dict[str, bytes | None], file: str) -> None:
        self.line, self.box, self.template, self.before, self.file = line, box, template, before, file

    def __call__(self, data: bytes, number: int) -> None:
        """Run the command, and raise what must not happen."""
        self.box.fill(self.template, self.before)
        (self.box.path / self.file).write_bytes(data)
        before = {**self.before, self.file: data}
        descriptors = open_files()
        done, errors = run(self.line)
        check_errors(errors)
        check_answer(self.line, done, bool(errors))
        errors.clear()
        after = content(self.box.path)
        failed = bool(done.exit_code) and not AFTER_WORK & {*self.line.split()}
        check_files(self.line.split()[0], before, after, failed=failed)
        assert not [*self.box.temporary.iterdir()], "temporary files are left"
        if done.exit_code and open_files() != descriptors:
            gc.collect()  # an error may be in a cycle with its frames, and these have the files
        assert not (still := open_files() - descriptors), f"still open: {sorted(still)}"
        if not done.exit_code:
            check_written(self.line, [name for name in after if after[name] != before.get(name)])


def run(line: str) -> tuple[commands.Done, list[BaseException]]:
    """Run a command line; return its answer, and the errors that it printed."""
    errors: list[BaseException] = []
    describe = process.describe

    def noted(error: BaseException, *arguments: Any) -> list[str]:
        errors.append(error)
        return describe(error, *arguments)

    with (
        patch.object(process, "describe", noted),
        patch.object(streams, "describe", noted),
        patch.object(typer_commands, "command_of", COMMAND_OF),
    ):
        return commands.run("formats", *line.split()), errors


def check_errors(errors: Sequence[BaseException]) -> None:
    """Check that errors are ours, with no text of another package or of Python."""
    for error in errors:
        if not isinstance(error, OURS):
            raise error
        cause = error.__cause__ or error.__context__
        while cause is not None:
            text = str(cause)
            if len(text) >= SHORTEST_TEXT and text in str(error) and not is_ours(cause):
                raise AssertionError(f"{type(cause).__name__} came through: {error}")
            cause = cause.__cause__ or cause.__context__


def is_ours(error: BaseException) -> bool:
    """Return whether this package raised the error, with its own words."""
    if isinstance(error, (*OURS, KeyError)):  # the last has the name that was missing
        return True
    *_, last = traceback.extract_tb(error.__traceback__)
    return "/formats/" in last.filename and (last.line or "").startswith("raise ")


def check_answer(line: str, done: commands.Done, has_error: bool) -> None:
    """Check the exit code and what was printed."""
    assert done.exit_code in (0, 1, 2)
    said = done.stderr.splitlines()
    assert all(map(LINE_OF_ERROR.match, said)), done.stderr
    finds = line.split()[0] in ("verify", "diff")
    assert has_error or finds or not done.exit_code, f"exit code {done.exit_code} without a reason: {done.output}"


def check_files(verb: str, before: dict[str, bytes | None], after: dict[str, bytes | None], *, failed: bool) -> None:
    """Check that nothing was left behind, and that a failure changed nothing."""
    new = after.keys() - before.keys()
    assert not [name for name in new if Path(name).name.startswith(".")], f"left behind: {sorted(new)}"
    if failed and verb != "batch":
        changed = {name for name in before if after.get(name, "") != before[name]}
        assert not changed | new, f"changed after a failure: {sorted(changed | new)}"


def check_written(line: str, names: Sequence[str]) -> None:
    """Check that our reader reads the models that were written."""
    if line.split()[0] in COPYING:
        return
    for name in names:
        if Path(name).suffix in WRITTEN and ".bak." not in name and Path(name).is_file():
            reading: dict[str, Any] = {"key": Key(Path("key").read_bytes())} if name.endswith(".onnxc") else {}
            try:
                formats.load(name, **reading)
            except FormatError as error:
                if isinstance(error, ExternalDataError) and WITHOUT_DATA & {*line.split()}:
                    continue
                raise AssertionError(f"what was written is refused: {error}") from error


# Running


def targets(root: Path, verbs: Sequence[str]) -> dict[str, dict[str, fuzz.Target]]:
    """Return a target for each file that each command line reads, by verb."""
    template = root / "template"
    template.mkdir()
    make_folder(template)
    box = Box(root)
    sys.addaudithook(note_opened)
    result: dict[str, dict[str, fuzz.Target]] = {}
    for name, line in LINES.items():
        verb = line.split()[0]
        if verb not in verbs or name in WITHOUT_FILES:
            continue
        code, found = files_read(line, box, template)
        again = root / f"after {name}".replace("/", ":")
        shutil.copytree(box.path, again)
        code_again, others = files_read(line, box, again)
        if code_again == code:  # it works again in the folder that it leaves
            found |= {file: use for file, use in others.items() if content(template).get(file) != use.before[file]}
        assert found, f"{line} reads no file: say why in WITHOUT_FILES"
        for file, use in found.items():
            data = use.before[file]
            assert data is not None
            seed = json.dumps(json.loads(data)).encode() if file.endswith(".json") else data
            target = fuzz.Target(functools.partial(list, [seed]), change_of(file), use)
            result.setdefault(verb, {})[f"{name}, {file}".replace("/", ":")] = target
    return result


def files_read(line: str, box: Box, template: Path) -> tuple[int, dict[str, Use]]:
    """Return the exit code of a command line, and what to do with each file of the template that it reads."""
    before = content(template)
    box.fill(template, before)
    OPENED.clear()
    done, _ = run(line)
    opened = {*OPENED}
    names = [name for name, data in before.items() if data is not None and Path(name).name in opened]
    return done.exit_code, {name: Use(line, box, template, before, name) for name in names}


def main() -> int:
    """Run the command lines; return whether anything failed."""
    verbs = [*dict.fromkeys(line.split()[0] for name, line in LINES.items() if name not in WITHOUT_FILES)]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verbs", nargs="*", metavar="VERB", help=", ".join(verbs))
    parser.add_argument("--inputs", type=int, default=1000, help="for each verb; at least one for each file")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--input", type=Path, help="try this file only")
    parser.add_argument("--keep", type=Path, default=Path(tempfile.gettempdir(), "fuzz-failures"), help="a folder")
    given = parser.parse_args()
    if unknown := {*given.verbs} - {*verbs}:
        parser.error(f"there is no verb {', '.join(sorted(unknown))}, or it reads no file")
    keep = given.keep.absolute()
    data = given.input and given.input.read_bytes()
    warnings.simplefilter("error")
    crypt.KEY_ITERATIONS = 1
    known: set[str] = set()
    with tempfile.TemporaryDirectory() as root:
        by_verb = targets(Path(root), given.verbs or verbs)
        fuzz.limit_memory()
        for verb, chosen in by_verb.items():
            if given.input:
                name, _, number = given.input.name.rsplit("-", 2)
                if name in chosen:
                    print(fuzz.failure(chosen[name], data, int(number)) or "nothing")
                continue
            share = 1 + -(-given.inputs // len(chosen))  # with the file as it was
            count, started = 0, time.monotonic()

            def is_enough(number: int, share: int = share) -> bool:  # asked before each input
                if not number % WATCHED:
                    faulthandler.dump_traceback_later(WATCHED * fuzz.MAX_WAIT, exit=True)
                return number >= share

            try:
                for name, target in chosen.items():
                    count += fuzz.run(name, target, is_enough, given.seed, keep, known)
            finally:  # also if the run is interrupted, which leaves out the file that it is at
                seconds = time.monotonic() - started
                print(f"{verb}: {count:,} inputs in {seconds:.0f} s, {len(known)} failures so far", flush=True)
        os.chdir("/")
    return int(len(known) > 0)


if __name__ == "__main__":
    sys.exit(main())

"""What users run with only the wheel and some of its extras; it needs nothing else: `program.py ROOT [EXTRA ...]`.

Each command of the README's table, each verb with the examples of its help, and each function of the library is done,
or refused in one line that names an extra which is not there, and then nothing has changed. What the table of extras in
`docs/install.md` says of each extra is so: without the extra it is refused with its name, with the extra it is done.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

COPIES = ("a", "b", "old", "new", "encoder", "decoder", "models/m")
NAMED = re.compile(r"pip install '?onnx-formats\[([\w-]+)\]'?")
NOTHING_THERE = ("s3://", "https://", "--dask")  # commands that ask another machine, which does not answer
# A call of each function of the library, by name, as code in a folder with the models.
CALLS = {
    "convert": "formats.convert('model.onnx', 'new.onnxz')",
    "convert_many": "formats.convert_many([('model.onnx', 'new.onnxz')], fail_fast=True)",
    "cp": "formats.cp('split.onnx', 'copy.onnx')",
    "DATA_TYPES": "formats.DATA_TYPES[0].name",
    "diff": "formats.diff('model.onnx', 'model.rten')",
    "dumps": "[formats.dumps(M, each) for each in ('onnx', 'onnxz', 'rten', 'ort', 'textproto', 'json')]",
    "edit": "formats.edit('model.onnx', 'e.onnx', metadata={'a': 'b'}, dtype='float16')",
    "extract": "formats.extract('model.onnx', 'part.onnx', outputs=[M.graph.node[0].output[0]])",
    "files": "formats.files('split.onnx').to_json()",
    "from_numpy": "formats.from_numpy(M.graph.initializer[0].numpy(), 'w')",
    "from_onnx": "formats.from_onnx(formats.onnxpb.load('model.onnx'))",
    "from_onnx_ir": "formats.from_onnx_ir(formats.to_onnx_ir(M))",
    "inspect": "formats.inspect('model.rten').to_json()",
    "link": "formats.link('model.onnxz', 'linked.onnx')",
    "load": "[formats.load(f'model.{each}') for each in ('onnx', 'onnxz', 'rten', 'ort')]",
    "loads": "formats.loads(open('model.onnx', 'rb').read())",
    "make_attribute": "formats.make_attribute('axis', 1)",
    "make_node": "formats.make_node('Relu', ['x'], ['y'])",
    "make_value_info": "formats.make_value_info('x', 'float32', [1, 'n'])",
    "merge": "formats.merge('a.onnx', 'b.onnx', 'both.onnx', prefix='second/')",
    "mv": "formats.mv('split.onnx', 'moved.onnx')",
    "onnxruntime_session": "formats.onnxruntime_session('model.onnx')",
    "pack": "formats.pack(['a.onnx', 'b.onnx'], 'bundle.onnxz')",
    "raise_model": "formats.raise_model(formats.load('model.rten'))",
    "repair": "formats.repair('model.onnx')",
    "rm": "formats.rm('split.onnx')",
    "save": "formats.save(M, 'saved.onnx', external_data=True, dtype='float16')",
    "share": "formats.share(['a.onnx', 'b.onnx'], 'shared')",
    "to_dtype": "formats.to_dtype(M, 'bfloat16')",
    "to_onnx": "formats.to_onnx(M)",
    "to_onnx_ir": "formats.to_onnx_ir(M)",
    "unpack": "formats.unpack('whisper.onnxz', 'unpacked')",
    "verify": "formats.verify('model.onnx', data=True)",
}
# Methods of a model, and what programs use of `formats.onnxpb`.
MORE_CALLS = {
    "Model.sort": "M.sort()",
    "Model.to_float16": "M.to_float16()",
    "Model.infer_shapes": "M.infer_shapes()",
    "onnxpb.load": "P.load('split.onnx').graph.initializer[0].raw_data",
    "onnxpb.save": "P.save(P.load('model.onnx'), 'p.onnx', save_as_external_data=True)",
    "onnxpb.text": "P.save(P.load('model.onnx'), 'p.textproto'), P.load('p.textproto')",
    "onnxpb.messages": "str(P.load('model.onnx')), P.ModelProto.FromString(P.load('model.onnx').SerializeToString())",
    "onnxpb.external": "P.convert_model_to_external_data(P.load('model.onnx'))",
    "onnxpb.encrypted": "P.save_encrypted(P.load('model.onnx'), 'p.onnxc', b'0' * 32)",
}


def code_of(call: str) -> str:
    """Return the program that makes a call; a refusal is one line, as of the command."""
    return (
        "import sys, formats, formats.onnxpb as P\nM = formats.load('model.onnx')\n"
        f"try: exec({call!r})\n"
        "except (formats.FormatError, ImportError) as error: sys.exit(f'error: {error}')"
    )


def prepare(folder: Path, root: Path) -> None:
    """Make the folder with all files that commands and calls read."""
    for name in ("models", "there", "examples"):
        (folder / name).mkdir()
    shutil.copy(root / "examples" / "digits.onnx", folder / "examples")
    (folder / "models.txt").write_text("a.onnx\nb.onnx\n")
    (folder / "tokenizer.json").write_text("{}")
    setup = f"""
        import formats, numpy, shutil
        shutil.copy('examples/digits.onnx', 'model.onnx')
        for each in {COPIES}: shutil.copy('model.onnx', each + '.onnx')
        for each in ('onnxz', 'rten', 'ort'): formats.convert('model.onnx', 'model.' + each)
        formats.convert('model.onnx', 'split.onnx', external_data=True, size_threshold=0)
        formats.pack(['encoder.onnx', 'decoder.onnx'], 'whisper.onnxz')
        formats.extract('model.onnx', 'body.onnx', outputs=['features'])
        formats.extract('model.onnx', 'head.onnx', inputs=['features'])
        numpy.savez('epoch9.npz', **{{'classifier.weight': numpy.zeros((10, 1176), 'float32')}})
    """
    subprocess.run([sys.executable, "-I", "-c", re.sub(r"\n +", "\n", setup)], cwd=folder, check=True)


def state(folder: Path) -> list[tuple[str, int, bytes]]:
    """Return what is in a folder."""
    files = (path for path in sorted(folder.rglob("*")) if path.is_file())
    return [(str(path.relative_to(folder)), path.stat().st_mtime_ns, path.read_bytes()) for path in files]


class Checks:
    """Commands and calls, each made in a copy of one folder, and what failed."""

    def __init__(self, root: Path, folder: Path, extras: list[str]) -> None:
        self.root, self.folder, self.extras = root, folder, extras
        self.outcomes: Counter[str] = Counter()
        self.failures: list[str] = []
        self.formats = Path(sys.executable).with_name("formats.exe" if os.name == "nt" else "formats")

    def run(self, what: str, wanted: str | None = None) -> None:
        """Make a call, or run a command; `wanted` is the extra that it needs."""
        words = self.words(what)
        with tempfile.TemporaryDirectory() as name:
            folder = shutil.copytree(self.folder, Path(name) / "f")
            before = state(folder)
            environment = {**os.environ, "MODEL_KEY": "a long secret"}
            done = subprocess.run(
                words,
                cwd=folder,
                env=environment,
                capture_output=True,
                stdin=subprocess.DEVNULL,
                text=True,
                timeout=120,
            )
            changed = state(folder) != before
        self.judge(what, done.returncode, done.stderr.strip(), changed, wanted)

    def words(self, what: str) -> list[str]:
        """Return what starts a command, with `--force` where its result is there already, or the program of a call."""
        if not what.startswith("formats "):
            return [sys.executable, "-I", "-c", code_of(CALLS.get(what) or MORE_CALLS.get(what) or what)]
        line = re.sub(r"^formats (convert|pack)\b", r"formats \1 --force", what)
        shell = ["cmd", "/c"] if os.name == "nt" else ["sh", "-c"]
        return [*shell, re.sub(r"(^|\| *|\()formats ", lambda found: f'{found[1]}"{self.formats}" ', line)]

    def judge(self, what: str, code: int, said: str, changed: bool, wanted: str | None) -> None:
        """Count an outcome, and note what is wrong with it."""
        found = NAMED.search(said)
        lines = said.splitlines()
        problem = ""
        if "Traceback" in said or "bug in formats" in said:
            problem = "it is a crash"
        elif code and found is None and not any(word in what for word in NOTHING_THERE):
            problem = "it is refused, and no extra is named"
        elif code and (len(lines) != 1 or changed):
            problem = "it is refused in more than one line, or left something behind"
        elif code and found is not None and found[1] in self.extras:
            problem = f"it is refused, although the extra {found[1]} is there"
        elif wanted is not None and wanted not in self.extras and not (code and found and found[1] == wanted):
            problem = f"the page says that it needs {wanted}"
        self.outcomes["done" if not code else f"needs {found[1]}" if found else "no answer"] += 1
        if problem:
            self.failures.append(f"{what}: {problem}\n    exit code {code}: {said or 'nothing is printed'}")

    def all(self) -> None:
        """Run everything; an environment with extras runs only what the page says of extras."""
        jobs: list[tuple[str, str | None]] = self.documented()
        if not self.extras:
            jobs += [(line, None) for line in self.rows()]
            names = json.loads((self.root / "tests" / "public_names.json").read_text("utf-8"))
            jobs += [(line, None) for verb in names["commands"] for line in self.of_verb(verb)]
            functions = [name for name, value in names["library"].items() if isinstance(value, str)]
            self.failures += [
                f"{name}: tests/installed/program.py has no call of it" for name in {*functions} - {*CALLS}
            ]
            jobs += [(name, None) for name in (*CALLS, *MORE_CALLS)]
            jobs += [(f"P.{name}", "onnx") for name in ("checker", "helper", "reference", "version_converter")]
        with ThreadPoolExecutor(2) as executor:
            list(executor.map(lambda job: self.run(*job), dict.fromkeys(jobs)))

    def rows(self) -> list[str]:
        """Return the commands of the README's tables of problems."""
        section = (self.root / "README.md").read_text("utf-8").partition("\n## Your problem, the command\n")[2]
        found = re.findall(r"^\| .*`(formats [^`]+)`", section.partition("\n## ")[0], re.MULTILINE)
        assert len(found) > 10, "the README has its table"
        return found

    def documented(self) -> list[tuple[str, str | None]]:
        """Return the commands and calls in the table of extras, each with its extra."""
        table = (self.root / "docs" / "install.md").read_text("utf-8").partition("| extra | what needs it |")[2]
        rows = [line.split(" | ") for line in table.partition("\n\n")[0].splitlines() if line.startswith("| `")]
        assert len(rows) > 5, "the page has its table"
        return [(what, row[0].strip("| `")) for row in rows for what in re.findall(r"`([^`]+)`", row[-1])]

    def of_verb(self, verb: str) -> list[str]:
        """Return the commands of a verb: its help, and the examples there."""
        words = [str(self.formats), verb, "--help"]
        shown = subprocess.run(words, capture_output=True, text=True, check=False, env={**os.environ, "COLUMNS": "200"})
        lines = shown.stdout.partition("Examples:")[2].splitlines()
        return [f"formats {verb} --help-all", *(line.strip() for line in lines if line.strip().startswith("formats "))]


def main(root: str, *extras: str) -> int:
    """Run everything; return 1 if anything failed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        prepare(folder, Path(root))
        checks = Checks(Path(root), folder, [*extras])
        checks.all()
    print(", ".join(f"{count} {outcome}" for outcome, count in sorted(checks.outcomes.items())))
    for failure in sorted(checks.failures):
        print(f"  FAILED {failure}")
    return int(bool(checks.failures))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

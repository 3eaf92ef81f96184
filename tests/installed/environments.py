"""Runs `program.py` where users are: in one environment with only the wheel, and in one for each single extra.

`python tests/installed/environments.py [WHEEL]` takes `uv` if it is there, or pip; without a wheel it builds one. It
prints one line for each environment, and what failed, and exits with 1 if anything did.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import venv
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "tests" / "installed" / "program.py"
EXTRAS = {  # each with those whose packages it brings
    "": (),
    "crypto": (),
    "dask": ("remote",),
    "onnx": (),
    "onnx-ir": ("onnx",),
    "onnxruntime": (),
    "remote": (),
}


def built(folder: Path) -> Path:
    """Return the wheel of this repository, built into a folder."""
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(command, check=True)
    return next(folder.glob("*.whl"))


def installed(wheel: Path, extra: str, folder: Path) -> Path:
    """Return the Python of a new environment with a wheel and one of its extras, or none."""
    python = folder / ("Scripts" if os.name == "nt" else "bin") / "python"
    wanted = f"onnx-formats[{extra}] @ {wheel.as_uri()}" if extra else str(wheel)
    if shutil.which("uv"):
        subprocess.run(["uv", "venv", "--quiet", "--python", sys.executable, str(folder)], check=True)
        command = ["uv", "pip", "install", "--quiet", "--python", str(python), wanted]
    else:
        venv.create(folder)
        command = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet", "--no-compile", wanted]
    subprocess.run(command, check=True)
    return python


def checked(wheel: Path, extra: str, folder: Path) -> tuple[int, str]:
    """Return the exit code and the output of the program in the environment for an extra."""
    began = monotonic()
    python = installed(wheel, extra, folder / "environment")
    made = monotonic() - began
    names = {name: text for name, text in os.environ.items() if not name.startswith(("PYTHON", "VIRTUAL_ENV"))}
    command = [str(python), "-I", str(PROGRAM), str(ROOT), *filter(None, (extra, *EXTRAS[extra]))]
    done = subprocess.run(command, cwd=folder, env=names, capture_output=True, text=True, check=False)
    times = f"{made:.0f} s to install, {monotonic() - began - made:.0f} s to run"
    return done.returncode, f"{extra or 'no extra'} ({times}): {done.stdout}{done.stderr}"


def main(arguments: list[str]) -> int:
    """Check all environments, two at a time; return 1 if anything failed in one of them."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheel = Path(arguments[0]).resolve() if arguments else built(folder)
        places = [folder / (extra or "none") for extra in EXTRAS]
        for place in places:
            place.mkdir()
        failed = False
        with ThreadPoolExecutor(2) as executor:
            for code, text in executor.map(checked, [wheel] * len(EXTRAS), EXTRAS, places):
                print(text.rstrip(), flush=True)
                failed |= code != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""Writes the test vectors as one zip file, for those who test a reader without Python.

    python tests/onnxzip/golden/published.py FOLDER      # writes FOLDER/onnxz-vectors-1.0.zip

Each archive is a file of its own there, and `vectors.tsv` has a line for each of them. The same vectors give the same
bytes. Archives of 4 GiB are not in it: `large.json` says how to make them.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import re
import sys
import zipfile
from collections.abc import Collection
from pathlib import Path

GOLDEN = Path(__file__).parent
NAME = "onnxz-vectors-1.0.zip"
COLUMNS = ("file", "strict", "loading", "requirement", "breaks", "sha256", "name")
README = """Test vectors of .onnxz 1.0
==========================

For authors of readers of .onnxz, in any language. The specification is docs/onnxz.md of the project onnx-formats.

vectors.tsv   a line for each archive, with tabs between the columns; the first line has their names
taken/        archives that a strict reader must accept
refused/      archives that a strict reader must refuse
small.onnxz   the example of the specification
small.txt     what each byte of it is
large.json    archives with more entries or bytes than zip counts without zip64, in parts: see below

Each object in large.json has a `name`, an archive that is `refused`, with what it `breaks` and whether a `loading`
reader refuses it, too, and one that is `taken`; either may be missing.

The columns of vectors.tsv:

file          the path in this folder
strict        what a strict reader does (Z-1.1): taken or refused
loading       what a loading reader does (Z-1.6): taken, refused, or any (the specification leaves it open)
requirement   the requirement that is tested
breaks        the requirement that a refused archive breaks; another number is not wrong (Z-1.2)
sha256        of the file
name          what is tested; a refused and a taken archive with one name differ as little as possible

To test a strict reader: for each line, read `file` and compare with `strict`. A shell does it, with a program `reader`
that exits with 0 if it takes an archive, and with 1 if it refuses it:

    tail -n +2 vectors.tsv | while IFS="$(printf '\\t')" read -r file strict rest; do
        if reader "$file"; then found=taken; else found=refused; fi
        [ "$found" = "$strict" ] || echo "$file: $found, not $strict"
    done

`loading` is `any` for archives that only a strict reader refuses, and for those that are taken but whose graph is not a
valid ONNX model. A loading reader reads the default model, or any if there is none.

Then make mutants: change, remove and insert bytes in small.onnxz and in the archives in taken/. A reader must not crash
or hang, and two strict readers have the same verdict on each mutant.

The licence is that of the project, Apache-2.0.

"""


def main() -> None:
    """Write the zip file into the folder that the command line names."""
    target = Path(sys.argv[1]) / NAME
    target.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, data in files().items():
            entry = zipfile.ZipInfo(f"onnxz-vectors-1.0/{name}")  # with a fixed date, so that the bytes are the same
            entry.external_attr = 0o100644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(entry, data)
    print(target)


def files() -> dict[str, bytes]:
    """Return the content of each file by its path."""
    archives: dict[str, bytes] = {}
    lines = ["\t".join(COLUMNS)]
    for vector in json.loads((GOLDEN / "vectors.json").read_text(encoding="utf-8")):
        for verdict in ("refused", "taken"):
            if verdict in vector:
                data = bytes.fromhex(vector[verdict])
                path = path_of(verdict, vector["name"], archives)
                archives[path] = data
                values = (path, verdict, loading(vector, verdict), vector["requirement"])
                breaks = vector["breaks"] if verdict == "refused" else ""
                lines.append("\t".join((*values, breaks, hashlib.sha256(data).hexdigest(), vector["name"])))
    others = {name: (GOLDEN / name).read_bytes() for name in ("small.onnxz", "small.txt", "large.json")}
    of_parts = (GOLDEN / "README.md").read_text(encoding="utf-8").partition("## Archives in parts\n")[2]
    readme = f"{README}Archives in parts\n-----------------\n{of_parts}"
    return {"README.txt": readme.encode(), "vectors.tsv": ("\n".join(lines) + "\n").encode(), **others, **archives}


def path_of(verdict: str, name: str, others: Collection[str]) -> str:
    """Return the path of an archive: its name in small letters, with `-` for other characters; each path is new."""
    stem = re.sub("[^a-z0-9.]+", "-", name.lower()).strip("-.")
    numbered = (f"{verdict}/{stem}-{number}.onnxz" for number in itertools.count(2))
    return next(path for path in itertools.chain([f"{verdict}/{stem}.onnxz"], numbered) if path not in others)


def loading(vector: dict[str, object], verdict: str) -> str:
    """Return what a loading reader does."""
    if verdict == "refused":
        return "refused" if vector.get("loading") else "any"
    return "taken" if vector.get("model", True) else "any"


if __name__ == "__main__":
    main()

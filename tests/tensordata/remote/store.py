"""Checks whether a store works with models.

    python tests/tensordata/remote/store.py ADDRESS [--storage-options KEY=VALUE]

It needs the package of the store, and a folder in the store that it can fill and empty. It prints a line for each
check. The page docs/remote.md lists the stores that were checked.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fsspec

import formats
from formats.verbs.arguments import path_of

DIGITS = Path(__file__).parents[3] / "examples" / "digits.onnx"


class Store:
    """A folder in a store, and the checks in it."""

    def __init__(self, folder: str, options: dict[str, Any]) -> None:
        self.folder = folder.rstrip("/")
        self.given = {"storage_options": options}
        self.fs, self.path = fsspec.url_to_fs(self.folder, **options)

    def names(self) -> list[str]:
        """Return the names of all files."""
        self.fs.invalidate_cache()
        return sorted(name.rpartition("/")[2] for name in self.fs.find(self.path))

    def convert(self, source: object, name: str, **options: Any) -> None:
        """Convert a model to the store."""
        formats.convert(source, f"{self.folder}/{name}", **options, **self.given)  # type: ignore[arg-type]

    def is_same(self, name: str) -> bool:
        """Return whether a model in the store is the example."""
        return formats.diff(f"{self.folder}/{name}", DIGITS, **self.given).equal

    # The checks

    def check_formats(self) -> None:
        """A model of each format is written, read and verified."""
        for suffix in ("onnx", "onnxz", "rten", "textproto"):
            self.convert(DIGITS, f"a.{suffix}")
            assert formats.verify(f"{self.folder}/a.{suffix}", data=True, **self.given).ok
            assert self.is_same(f"a.{suffix}")
        assert [f"a.{suffix}" for suffix in ("onnx", "onnxz", "rten", "textproto")] == self.names()

    def check_inspection(self) -> None:
        """A model in the store is inspected."""
        assert 6 == len(formats.inspect(f"{self.folder}/a.onnxz", **self.given).tensors)

    def check_existing(self) -> None:
        """An existing file is replaced only on request, and only completely."""
        before = self.fs.cat_file(f"{self.path}/a.onnx")
        try:
            self.convert(f"{self.folder}/a.onnxz", "a.onnx")
        except FileExistsError:
            assert before == self.fs.cat_file(f"{self.path}/a.onnx")
        else:
            raise AssertionError("it was replaced")
        self.convert(f"{self.folder}/a.onnxz", "a.onnx", overwrite=True)
        assert self.is_same("a.onnx")

    def check_a_race(self) -> None:
        """A file that appears during the conversion is not replaced."""
        from formats.tensordata.remote.upload import _Upload

        looked, _Upload.exists = _Upload.exists, lambda _: False  # type: ignore[method-assign]
        try:
            self.convert(DIGITS, "a.onnx")
        except FileExistsError:
            assert self.is_same("a.onnx")
        else:  # the bytes are the same, so this upload cannot be distinguished from the other one
            assert self.is_same("a.onnx")
        other = formats.load(DIGITS)
        other.producer_name = "somebody else"
        try:
            formats.save(other, f"{self.folder}/a.onnx", **self.given)
        except FileExistsError:
            assert self.is_same("a.onnx")
        else:
            print("      the store does not refuse to replace a file, so a race can be lost")
            self.convert(DIGITS, "a.onnx", overwrite=True)
        finally:
            _Upload.exists = looked  # type: ignore[method-assign]

    def check_several_files(self) -> None:
        """A model with data files is written, replaced, and read; no hidden file is left."""
        for _ in range(2):
            self.convert(DIGITS, "b.onnx", external_data=True, size_threshold=0, overwrite=True)
            assert self.is_same("b.onnx")
        self.convert(f"{self.folder}/b.onnx", "b.onnx", external_data=True, size_threshold=0, overwrite=True)
        assert ["b.onnx", "b.onnx.data"] == [name for name in self.names() if name.startswith((".", "b"))]

    def check_large_files(self) -> None:
        """A file of 120 MB, which most stores receive in parts, is the same when read back."""
        from tests.tensordata.remote.remote_servers import large_model

        with tempfile.TemporaryDirectory() as here:
            formats.save(large_model(3, 40 << 20), Path(here, "large.onnx"))
            self.convert(Path(here, "large.onnx"), "large.onnxz")
            assert formats.verify(f"{self.folder}/large.onnxz", data=True, **self.given).ok
            assert formats.diff(f"{self.folder}/large.onnxz", Path(here, "large.onnx"), **self.given).equal

    def check_a_file_that_changes(self) -> None:
        """Reading a model that was replaced after it was opened is an error."""
        self.convert(f"{self.folder}/large.onnxz", "c.onnx")
        model = formats.load(f"{self.folder}/c.onnx", **self.given)
        self.convert(DIGITS, "c.onnx", overwrite=True)
        try:
            formats.dumps(model, "onnx")
        except formats.FormatError as error:
            assert "has changed" in str(error), error
        else:
            raise AssertionError("nobody saw it")

    def check_what_is_missing(self) -> None:
        """A missing file is an error of this kind."""
        for name in ("missing.onnx", "no/such/folder/m.onnx"):
            try:
                formats.load(f"{self.folder}/{name}", **self.given)
            except FileNotFoundError:
                continue
            raise AssertionError(name)

    def check_batches(self) -> None:
        """A folder of the store is converted to another one, and a second run has nothing to do."""
        from formats.batch import job_list
        from formats.codecs import lookup

        target = lookup.by_name("onnxz")
        out = path_of(f"{self.folder}/out")
        places = job_list.source_files([self.folder], out, "onnx", self.given["storage_options"])
        jobs = job_list.jobs_into(out, places, target)
        assert jobs
        with tempfile.TemporaryDirectory() as here:
            for state in ("converted", "unchanged"):
                results = formats.convert_many(jobs, processes=1, manifest=Path(here, "runs.jsonl"), **self.given)
                assert {state} == {result.state for result in results}, [str(result.error) for result in results]

    def empty(self) -> None:
        """Remove everything."""
        self.fs.invalidate_cache()
        if self.fs.exists(self.path):
            self.fs.rm(self.path, recursive=True)


def main() -> int:
    """Run the checks; return 1 if one fails, otherwise 0."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("--storage-options", action="append", default=[], metavar="KEY=VALUE")
    given = parser.parse_args()
    options: dict[str, Any] = {}
    for text in given.storage_options:
        key, _, value = text.partition("=")
        try:
            options[key] = json.loads(value)
        except ValueError:
            options[key] = value
    store = Store(given.address, options)
    store.empty()
    checks: list[Callable[[], None]] = [
        store.check_formats,
        store.check_inspection,
        store.check_existing,
        store.check_a_race,
        store.check_several_files,
        store.check_large_files,
        store.check_a_file_that_changes,
        store.check_what_is_missing,
        store.check_batches,
    ]
    failures = 0
    for check in checks:
        try:
            check()
            print(f"ok    {check.__doc__}")
        except Exception:  # any exception of any library
            failures += 1
            print(f"FAIL  {check.__doc__}")
            traceback.print_exc()
    store.empty()
    return min(failures, 1)


if __name__ == "__main__":
    sys.exit(main())

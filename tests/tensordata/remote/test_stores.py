"""Models in stores: S3 as moto emulates it, and the filesystems of fsspec that need no server."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any, ClassVar

import fsspec
import pytest
from fsspec.implementations.memory import MemoryFileSystem

import formats
from formats.errors import FormatError, TensorDataError
from formats.tensordata.remote import remote_file, stores
from formats.tensordata.remote.address import Address, without_secrets
from tests import commands
from tests.tensordata.remote.remote_servers import Asked, S3Server, large_model

MIB = 1 << 20


def names(address: str, **options: Any) -> list[str]:
    """Return the names of all objects below an address."""
    fs, path = fsspec.url_to_fs(address, **options)
    fs.invalidate_cache()
    return sorted(name.rpartition("/")[2] for name in fs.find(path))


@pytest.fixture(params=["memory", pytest.param("s3", marks=pytest.mark.outer)])
def place(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """An empty folder in a store, and the keywords with its storage options."""
    if request.param == "memory":
        return request.getfixturevalue("memory"), {}
    s3: S3Server = request.getfixturevalue("s3")
    return f"s3://{s3.bucket}/models", {"storage_options": s3.options}


@pytest.mark.parametrize("suffix", [".onnx", ".onnxz", ".rten", ".textproto"])
def test_there_and_back(place: tuple[str, dict[str, Any]], digits: Path, suffix: str, tmp_path: Path) -> None:
    """A model is written to a store with the same bytes as to a file, and is the same when converted back."""
    folder, options = place
    local, there = tmp_path / f"m{suffix}", f"{folder}/m{suffix}"
    formats.convert(digits, local)
    report = formats.convert(digits, there, **options)
    assert there == str(report.destination)
    assert [f"m{suffix}"] == names(folder, **options.get("storage_options", {}))
    formats.convert(there, tmp_path / "back.onnxz", **options)
    formats.convert(local, tmp_path / "here.onnxz")
    assert (tmp_path / "here.onnxz").read_bytes() == (tmp_path / "back.onnxz").read_bytes()
    assert formats.verify(there, data=True, **options).ok
    assert formats.diff(there, local, **options).equal


def test_external_data(place: tuple[str, dict[str, Any]], digits: Path) -> None:
    """A model with data files, split data or links is converted from a store to the same store."""
    folder, options = place
    given = options.get("storage_options", {})
    formats.convert(digits, f"{folder}/m.onnx", external_data=True, size_threshold=0, **options)
    assert ["m.onnx", "m.onnx.data"] == names(folder, **given)
    formats.convert(
        f"{folder}/m.onnx", f"{folder}/s.onnx", external_data=True, max_external_file_size=20_000, **options
    )
    assert len(names(folder, **given)) >= 5
    assert formats.diff(f"{folder}/s.onnx", digits, **options).equal
    formats.convert(f"{folder}/s.onnx", f"{folder}/a.onnxz", **options)
    formats.convert(f"{folder}/a.onnxz", f"{folder}/linked.onnx", link=True, **options)
    assert formats.inspect(f"{folder}/linked.onnx", **options).archive is not None
    assert formats.diff(f"{folder}/linked.onnx", digits, **options).equal


def test_existing_objects(place: tuple[str, dict[str, Any]], digits: Path) -> None:
    """An existing object is replaced only on request."""
    folder, options = place
    formats.convert(digits, f"{folder}/m.onnxz", **options)
    with pytest.raises(FileExistsError) as caught:
        formats.convert(digits, f"{folder}/m.onnxz", **options)
    assert f"{folder}/m.onnxz" == caught.value.filename
    formats.convert(f"{folder}/m.onnxz", f"{folder}/m.onnxz", overwrite=True, **options)
    assert formats.diff(digits, f"{folder}/m.onnxz", **options).equal
    formats.convert(digits, f"{folder}/m.onnx", external_data=True, size_threshold=0, **options)
    with pytest.raises(FileExistsError):
        formats.convert(digits, f"{folder}/m.onnx", external_data=True, size_threshold=0, **options)
    formats.convert(f"{folder}/m.onnx", f"{folder}/m.onnx", external_data=True, overwrite=True, **options)
    assert formats.diff(digits, f"{folder}/m.onnx", **options).equal
    assert ["m.onnx", "m.onnx.data", "m.onnxz"] == names(folder, **options.get("storage_options", {}))


def test_dry_runs(place: tuple[str, dict[str, Any]], digits: Path) -> None:
    """A dry run says which objects it would write, or what prevents it, and writes nothing."""
    folder, options = place
    report = formats.convert(digits, f"{folder}/m.onnxz", dry_run=True, **options)
    assert [f"{folder}/m.onnxz"] == [str(file.path) for file in report.files]
    assert [] == names(folder, **options.get("storage_options", {}))
    formats.convert(digits, f"{folder}/m.onnxz", **options)
    with pytest.raises(FileExistsError):
        formats.convert(digits, f"{folder}/m.onnxz", dry_run=True, **options)


def test_save_and_load(place: tuple[str, dict[str, Any]], digits: Path, tmp_path: Path) -> None:
    """`save` and `load` accept an address and a `UPath`."""
    from upath import UPath

    folder, options = place
    model = formats.load(digits)
    formats.save(model, f"{folder}/m.onnxz", **options)
    path = UPath(f"{folder}/m.onnxz", **options.get("storage_options", {}))
    assert formats.load(path) == model
    formats.save(model, path.with_suffix(".onnx"))
    assert formats.load(path.with_suffix(".onnx")) == model
    local = UPath(tmp_path) / "local.onnx"
    formats.save(model, local)
    assert formats.load(local) == model


def test_encryption(place: tuple[str, dict[str, Any]], digits: Path, tmp_path: Path) -> None:
    """A model is encrypted on its way into a store."""
    pytest.importorskip("cryptography")
    folder, options = place
    formats.convert(digits, f"{folder}/m.onnxc", key="secret words", **options)
    fs, path = fsspec.url_to_fs(f"{folder}/m.onnxc", **options.get("storage_options", {}))
    assert b"conv" not in fs.cat_file(path)
    formats.convert(f"{folder}/m.onnxc", tmp_path / "out.onnx", key="secret words", **options)
    assert formats.diff(digits, tmp_path / "out.onnx").equal


def test_what_is_not_there(place: tuple[str, dict[str, Any]], digits: Path, tmp_path: Path) -> None:
    """A missing object, a folder and a missing bucket give other errors than a bad model."""
    folder, options = place
    with pytest.raises(FileNotFoundError, match="no such file"):
        formats.load(f"{folder}/missing.onnx", **options)
    formats.convert(digits, f"{folder}/below/m.onnx", **options)
    with pytest.raises((FileNotFoundError, IsADirectoryError)):
        formats.load(f"{folder}/below", **options)
    with pytest.raises(formats.UnknownFormatError):
        formats.convert(digits, f"{folder}/m.what", **options)


@pytest.mark.parametrize(
    ("number", "status", "is_passing"),
    [(errno.ECONNRESET, None, True), (errno.EIO, None, True), (errno.ENOSPC, None, False), (None, None, False),
     (errno.EIO, 400, False), (errno.EIO, 503, True), (None, 503, True)],
)  # fmt: skip
def test_which_errors_may_pass(number: int | None, status: int | None, is_passing: bool) -> None:
    """The status of an answer says whether to repeat a request; without an answer, the error of the system does."""
    error = OSError(number, "no answer") if number else RuntimeError("no answer")
    error.status = status  # type: ignore[union-attr]  # as libraries for HTTP have it
    found = stores._translated(error, Address("memory://m.onnx"))
    assert is_passing == found.is_passing  # type: ignore[attr-defined]  # it is a RemoteError


@pytest.mark.parametrize(("nbytes", "is_copied"), [(100, False), (101, True)])
def test_only_large_files_are_copied(
    memory: str, nbytes: int, is_copied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that needs all of a file gets a copy of it, one for all readers, unless the file is kept in memory."""
    monkeypatch.setattr(remote_file, "KEPT_BYTES", 100)
    fs, path = fsspec.url_to_fs(f"{memory}/f")
    fs.pipe_file(path, bytes(nbytes))
    file = remote_file.RemoteFile(Address(f"{memory}/f"))
    file.expect_all()
    copy = file._copy
    assert is_copied == (copy is not None)
    file.expect_all()
    assert file._copy is copy


def test_a_replaced_object_in_memory(memory: str, digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If a store's answer to a range does not identify the object, the store is asked again at the end."""
    fs, path = fsspec.url_to_fs(f"{memory}/m.onnx")
    fs.put_file(str(digits), path)
    real, count = type(fs).cat_file, [0]

    def replacing(self: Any, *arguments: Any, **keywords: Any) -> bytes:
        found: bytes = real(self, *arguments, **keywords)
        count[0] += 1
        if count[0] == 1:
            self.pipe_file(path, digits.read_bytes()[:-1])
        return found

    monkeypatch.setattr(type(fs), "cat_file", replacing)
    with pytest.raises(TensorDataError, match="has changed"):
        formats.load(f"{memory}/m.onnx", retries=0)


@pytest.mark.parametrize("count", [1, 9])
def test_weights_of_a_replaced_object(memory: str, count: int) -> None:
    """Weights of another object than the one that was opened are never used, whether it is smaller or larger."""
    address = f"{memory}/m.onnx"
    formats.save(large_model(4, 9 * MIB), address)
    model = formats.load(address, retries=0)
    formats.save(large_model(count, 5 * MIB, nodes=7), address, overwrite=True)
    assert model.graph is not None
    for use in (model.graph.initializer[3].numpy, lambda: formats.dumps(model, "onnx")):
        with pytest.raises(TensorDataError, match="has changed"):
            use()


class StoreWithoutRanges(MemoryFileSystem):
    """A store like fsspec's for SFTP, whose `cat_file` always returns the whole file."""

    protocol = "whole"
    store: ClassVar[dict[str, Any]] = {}
    cachable = False

    def cat_file(self, path: str, **options: Any) -> bytes:
        """Return the whole file."""
        return bytes(self.store[path].getvalue())


def test_a_store_that_reads_whole_files(digits: Path, tmp_path: Path) -> None:
    """If `cat_file` supports no ranges, they are read from an open file; new files are renamed to their final names."""
    fsspec.register_implementation("whole", StoreWithoutRanges, clobber=True)
    formats.save(large_model(4, MIB), "whole://folder/m.onnxz")
    assert ["m.onnxz"] == [name.rpartition("/")[2] for name in StoreWithoutRanges.store]
    assert 4 == len(formats.inspect("whole://folder/m.onnxz").tensors)
    assert formats.verify("whole://folder/m.onnxz", data=True).ok
    with pytest.raises(FileExistsError):
        formats.convert(digits, "whole://folder/m.onnxz")
    formats.convert(digits, "whole://folder/m.onnxz", overwrite=True)
    assert formats.diff("whole://folder/m.onnxz", digits).equal
    assert ["m.onnxz"] == [name.rpartition("/")[2] for name in StoreWithoutRanges.store]


class ForgetfulStore(MemoryFileSystem):
    """A store like Google's: it refuses to replace an object with 412, and loses the answer to the first upload."""

    protocol = "gs"
    store: ClassVar[dict[str, Any]] = {}
    uploads: ClassVar[list[str]] = []
    cachable = False

    def put_file(self, lpath: str, rpath: str, callback: Any = None, mode: str = "overwrite", **options: Any) -> None:
        """Put a file."""
        self.uploads.append(mode)
        if mode == "create" and self.exists(rpath):
            raise Answer(412)
        super().put_file(lpath, rpath, **options)
        if len(self.uploads) == 1:
            raise Answer(503)


class Answer(Exception):
    """The error of a library below fsspec for a status."""

    def __init__(self, code: int) -> None:
        super().__init__(f"status {code}")
        self.code = code


@pytest.mark.parametrize("retries", [2, 0])
def test_an_answer_that_other_stores_lose(digits: Path, monkeypatch: pytest.MonkeyPatch, retries: int) -> None:
    """A 412 after a lost answer is no error if the object is the one that was sent; without a retry, none is left."""
    fsspec.register_implementation("gs", ForgetfulStore, clobber=True)
    ForgetfulStore.store.clear()
    ForgetfulStore.uploads.clear()
    if not retries:
        with pytest.raises(formats.RemoteError, match="status 503"):
            formats.convert(digits, "gs://bucket/m.onnx", retries=0)
        assert {} == ForgetfulStore.store
        return
    formats.convert(digits, "gs://bucket/m.onnx", retries=retries)
    assert ["create", "create"] == ForgetfulStore.uploads
    assert formats.diff(digits, "gs://bucket/m.onnx").equal
    with pytest.raises(FileExistsError):
        formats.convert(digits, "gs://bucket/m.onnx")


def test_memory_is_not_copied_whole(memory: str, tmp_path: Path) -> None:
    """The last link of a chain says where the model is: with `zip://`, models are read from archives."""
    formats.save(large_model(2, 4096), tmp_path / "m.onnx", external_data=True)
    with zipfile.ZipFile(tmp_path / "models.zip", "w") as archive:
        for name in ("m.onnx", "m.onnx.data"):
            archive.write(tmp_path / name, f"inner/{name}")
    address = f"zip://inner/m.onnx::file://{tmp_path}/models.zip"
    seen = formats.inspect(address)
    assert ["m.onnx", "m.onnx.data"] == [file.path.name for file in seen.files]
    assert formats.diff(address, tmp_path / "m.onnx").equal


def test_local_addresses(digits: Path, tmp_path: Path) -> None:
    """A `file:` address is a path, and is written as one."""
    folder = tmp_path / "a b"
    folder.mkdir()
    report = formats.convert(digits.as_uri(), (folder / "m.onnxz").as_uri())
    assert folder / "m.onnxz" == report.destination
    assert not isinstance(report.destination, Address)
    assert (folder / "m.onnxz").exists()


# S3


def test_requests_of_s3(s3: S3Server, tmp_path: Path) -> None:
    """Inspecting an archive or external data in S3 takes at most 4 requests and 1 MiB besides the graph."""
    for name, options in (("m.onnxz", {}), ("m.onnx", {"external_data": True})):
        formats.save(large_model(256, 8 << 10, 10_000), tmp_path / name, **options)
    formats.save(large_model(0, 0, 10_000), tmp_path / "graph.onnx")
    for path in tmp_path.iterdir():
        s3.fs.put_file(str(path), f"{s3.bucket}/{path.name}")
    for name in ("m.onnxz", "m.onnx"):
        s3.forget()
        assert 256 == len(formats.inspect(f"s3://{s3.bucket}/{name}", storage_options=s3.options).tensors)
        assert len(s3.requests) <= 4
        assert s3.nbytes <= (tmp_path / "graph.onnx").stat().st_size + MIB
        assert all("HTTP_IF_MATCH" in asked.headers for asked in s3.requests if asked.method == "GET")


def test_a_replaced_object_in_s3(s3: S3Server, digits: Path, tmp_path: Path) -> None:
    """A range of another object than the one that was opened is refused in S3."""
    address = f"s3://{s3.bucket}/m.onnxz"
    formats.save(large_model(4, MIB), address, storage_options=s3.options)
    model = formats.load(address, storage_options=s3.options)
    formats.save(large_model(4, MIB, nodes=7), address, storage_options=s3.options, overwrite=True)
    with pytest.raises(TensorDataError, match="has changed since it was read"):
        formats.save(model, tmp_path / "out.onnx")
    assert not (tmp_path / "out.onnx").exists()


@pytest.mark.parametrize("number", [0, 1])
def test_uploads_that_fail(s3: S3Server, digits: Path, number: int) -> None:
    """If the data or the model cannot be uploaded, neither is left."""
    count = [0]

    def fault(_: int, asked: Asked) -> int | None:
        if asked.method != "PUT":
            return None
        count[0] += 1
        return 403 if count[0] > number else None

    s3.fault = fault
    with pytest.raises(PermissionError, match="does not allow this"):
        formats.convert(
            digits, f"s3://{s3.bucket}/m.onnx", external_data=True, size_threshold=0, storage_options=s3.options
        )
    s3.fault = None
    assert [] == names(f"s3://{s3.bucket}", **s3.options)


@pytest.mark.parametrize("number", range(5))
def test_replacements_that_fail(s3: S3Server, digits: Path, number: int) -> None:
    """A model that is being replaced is the old one, the new one, or missing, with an error that says where it is."""
    address, options = f"s3://{s3.bucket}/m.onnx", {"storage_options": s3.options}
    formats.save(large_model(3, 4096), address, external_data=True, **options)
    count = [0]

    def fault(_: int, asked: Asked) -> int | None:
        if asked.method in ("GET", "HEAD"):
            return None
        count[0] += 1
        return 403 if count[0] == number + 1 else None

    s3.fault = fault
    given = {"external_data": True, "size_threshold": 0, "overwrite": True, "retries": 0, **options}
    with pytest.raises(PermissionError) as caught:
        formats.convert(digits, address, **given)
    s3.fault = None
    try:
        model = formats.load(address, **options)
    except FileNotFoundError:
        assert "the old model is gone, and the new files are in their places or at" in str(caught.value)
        assert any(name.startswith(".m.onnx.") for name in names(f"s3://{s3.bucket}", **s3.options))
    else:
        is_old = "layer.0.weight" in {tensor.name for tensor in model.graph.initializer} if model.graph else False
        if not is_old:
            assert formats.diff(address, digits, **options).equal
        else:
            assert formats.verify(address, data=True, **options).ok
    formats.convert(digits, address, **given)
    assert formats.diff(address, digits, **options).equal


def test_refusals_of_s3(s3: S3Server, digits: Path) -> None:
    """If a store refuses a request, it is not repeated, and the error contains no secret."""
    formats.convert(digits, f"s3://{s3.bucket}/m.onnx", storage_options=s3.options)
    s3.fault = lambda _, asked: 403 if asked.method == "GET" else None
    s3.forget()
    with pytest.raises(PermissionError) as caught:
        formats.load(f"s3://{s3.bucket}/m.onnx", storage_options=s3.options, retries=3)
    assert "testing-secret" not in str(caught.value) + repr(caught.value)
    assert 1 == sum(asked.method == "GET" for asked in s3.requests)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return storage options with which botocore and s3fs do not repeat a request."""
    s3fs = pytest.importorskip("s3fs")
    monkeypatch.setattr(s3fs.S3FileSystem, "retries", 1)
    return {"config_kwargs": {"retries": {"max_attempts": 0}}, "skip_instance_cache": True}


@pytest.mark.parametrize("status", [500, 503])
@pytest.mark.parametrize("retries", [2, 0])
def test_retries_of_s3(
    s3: S3Server, digits: Path, tmp_path: Path, impatient: dict[str, Any], status: int, retries: int
) -> None:
    """Each kind of request is repeated if the store is busy (`SlowDown`), unless retries are off."""
    address, options = f"s3://{s3.bucket}/m.onnx", {**s3.options, **impatient}
    formats.convert(digits, f"s3://{s3.bucket}/old.onnx", storage_options=s3.options)
    failed: set[tuple[object, ...]] = set()

    def fault(_: int, asked: Asked) -> int | None:
        kind = (asked.method, asked.path, asked.range)
        is_first = kind not in failed
        failed.add(kind)
        return status if is_first else None

    s3.fault = fault
    given = {"storage_options": options, "retries": retries}
    if not retries:
        with pytest.raises(formats.RemoteError, match="the store failed"):
            formats.convert(f"s3://{s3.bucket}/old.onnx", tmp_path / "out.onnx", **given)
        with pytest.raises(formats.RemoteError, match="the store failed"):
            formats.convert(digits, address, **given)
        s3.fault = None
        assert ["old.onnx"] == names(f"s3://{s3.bucket}", **s3.options)
        assert not (tmp_path / "out.onnx").exists()
        return
    formats.convert(f"s3://{s3.bucket}/old.onnx", address, external_data=True, size_threshold=0, **given)
    assert {"HEAD", "GET", "PUT"} <= {str(kind[0]) for kind in failed}
    s3.fault = None
    assert formats.diff(address, digits, **given).equal


def test_an_answer_that_is_lost(s3: S3Server, digits: Path, impatient: dict[str, Any]) -> None:
    """If a file was uploaded but the answer was lost, the repeated request finds the file, and this is no error."""
    address, options = f"s3://{s3.bucket}/m.onnx", {**s3.options, **impatient}
    lost: list[str] = []

    def loses(asked: Asked) -> bool:
        first = asked.method == "PUT" and asked.path not in lost
        lost.extend([asked.path] if first else [])
        return first

    s3.loses = loses
    s3.forget()
    formats.convert(digits, address, external_data=True, size_threshold=0, storage_options=options)
    assert 2 == len(lost)
    assert 4 == sum(asked.method == "PUT" for asked in s3.requests)  # the second requests were refused
    s3.loses = None
    assert formats.diff(address, digits, storage_options=options).equal
    with pytest.raises(FileExistsError):
        formats.convert(digits, address, storage_options=options)


def test_an_object_that_somebody_else_puts_there(s3: S3Server, digits: Path, impatient: dict[str, Any]) -> None:
    """A file that another program writes to the address of an upload is kept, and so are data that may belong to it."""
    address, options = f"s3://{s3.bucket}/m.onnx", {**s3.options, **impatient}
    path = f"{s3.bucket}/m.onnx"

    def loses(asked: Asked) -> bool:
        if asked.method != "PUT" or "HTTP_IF_NONE_MATCH" not in asked.headers:
            return False
        if asked.path.endswith("m.onnx"):
            s3.loses = None
            s3.fs.pipe_file(path, b"of somebody else")
            return False
        s3.loses = model
        return True

    def model(asked: Asked) -> bool:
        s3.loses = loses if asked.path.endswith("m.onnx.data") else s3.loses
        return loses(asked) if asked.path.endswith("m.onnx") else False

    s3.loses = loses
    with pytest.raises(FileExistsError) as caught:
        formats.convert(digits, address, external_data=True, size_threshold=0, storage_options=options)
    assert "and stays, because another program may have written the same" in str(caught.value)
    assert "m.onnx.data" in str(caught.value)
    assert b"of somebody else" == s3.fs.cat_file(path)
    assert ["m.onnx", "m.onnx.data"] == names(f"s3://{s3.bucket}", **s3.options)


@pytest.mark.parametrize("what", ["nothing", "a part", "the end", "the answer"])
@pytest.mark.parametrize("is_secret", [False, True], ids=["plain", "decrypted"])
def test_uploads_in_parts(
    s3: S3Server,
    impatient: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    what: str,
    is_secret: bool,
) -> None:
    """A large file is uploaded in parts; after a failure, no part is left, and a lost answer is not a failure.

    A decrypted one too, although no library gets it as a file.
    """
    monkeypatch.setattr("s3fs.core.calculate_chunksize", lambda *_, **__: 5 * MIB)
    monkeypatch.setattr("s3fs.S3FileSystem.default_block_size", 5 * MIB)
    given: dict[str, Any] = {"key": "correct horse"} if is_secret else {}
    address, options = f"s3://{s3.bucket}/m.onnx", {**s3.options, **impatient}

    def fault(_: int, asked: Asked) -> int | None:
        if what == "a part":
            return 403 if "partNumber=2" in asked.path else None
        return 403 if asked.method == "POST" and "uploadId" in asked.path else None

    if what in ("a part", "the end"):
        s3.fault = fault
    count = [0]

    def loses(asked: Asked) -> bool:
        is_end = asked.method == "POST" and "uploadId" in asked.path
        count[0] += is_end
        return is_end and count[0] == 1

    s3.loses = loses if what == "the answer" else None
    s3.forget()
    formats.save(large_model(3, 4 * MIB), tmp_path / "m.onnx")
    source = tmp_path / ("m.onnxc" if is_secret else "m.onnx")
    if is_secret:
        formats.convert(tmp_path / "m.onnx", source, **given)
    if s3.fault:
        with pytest.raises(PermissionError):
            formats.convert(source, address, storage_options=options, **given)
    else:
        formats.convert(source, address, storage_options=options, **given)
        assert formats.diff(tmp_path / "m.onnx", address, storage_options=options).equal
    one_after_another = is_secret and what == "a part"  # the third one is not begun
    assert 3 - one_after_another <= sum("partNumber" in asked.path for asked in s3.requests)
    s3.fault = s3.loses = None
    assert [] == s3.fs.list_multipart_uploads(s3.bucket)
    assert ([] if what in ("a part", "the end") else ["m.onnx"]) == names(f"s3://{s3.bucket}", **s3.options)


def test_a_decrypted_model_replaces_nothing_that_exists(s3: S3Server, digits: Path, tmp_path: Path) -> None:
    """The store itself refuses a second object, also if it appears after the first look."""
    key, address = "correct horse", f"s3://{s3.bucket}/m.onnx"
    formats.convert(digits, tmp_path / "m.onnxc", key=key)

    def appears(asked: Asked) -> bool:
        if "HTTP_IF_NONE_MATCH" in asked.headers:
            s3.fs.pipe_file(address, b"other")
        return False

    s3.loses = appears
    with pytest.raises(FileExistsError):
        formats.convert(tmp_path / "m.onnxc", address, key=key, storage_options=s3.options)
    s3.loses = None
    assert b"other" == s3.fs.cat_file(address)
    formats.convert(tmp_path / "m.onnxc", address, key=key, storage_options=s3.options, overwrite=True)
    assert formats.diff(digits, address, storage_options=s3.options).equal


def test_stores_that_may_keep_a_copy(digits: Path, tmp_path: Path) -> None:
    """A decrypted model goes to no store whose library may put it on a disk; an encrypted one does."""
    key = "correct horse"
    fsspec.register_implementation("whole", StoreWithoutRanges, clobber=True)
    formats.convert(digits, tmp_path / "m.onnxc", key=key)
    for write in (
        lambda: formats.convert(tmp_path / "m.onnxc", "whole://secret/m.onnx", key=key),
        lambda: formats.save(formats.load(tmp_path / "m.onnxc", key=key), "whole://secret/m.onnx"),
    ):
        with pytest.raises(formats.UnsupportedError, match="may put the decrypted model on a disk"):
            write()
    formats.convert(tmp_path / "m.onnxc", "whole://secret/m.onnxc", key=key)
    assert formats.diff("whole://secret/m.onnxc", digits, key=key).equal


def test_credentials(s3: S3Server, digits: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If there are no credentials, the error says so."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    options = {"endpoint_url": s3.options["endpoint_url"], "skip_instance_cache": True}
    with pytest.raises(PermissionError, match=r"(?i)credentials"):
        formats.load(f"s3://{s3.bucket}/m.onnx", storage_options=options)


def test_the_command_on_s3(s3: S3Server, digits: Path) -> None:
    """The command writes to S3, with credentials from the environment, and names the option that replaces an object."""
    options = s3.options
    environment = {
        **os.environ,
        "AWS_ACCESS_KEY_ID": options["key"],
        "AWS_SECRET_ACCESS_KEY": options["secret"],
        "AWS_ENDPOINT_URL": options["endpoint_url"],
    }
    command = [sys.executable, "-m", "formats", "convert", str(digits), f"s3://{s3.bucket}/m.onnxz"]
    for code, words in ((0, "onnxz"), (1, "--force")):
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment)
        assert code == done.returncode, done.stderr
        assert words in done.stdout + done.stderr


# Addresses


SECRET_FORMS = (
    "nosuch://user:sec-word@host/m.onnx",
    "NoSuch://user:a/sec-word@host/m.onnx",
    "nosuch://sec-word@host/m.onnx",
    "nosuch://host/m.onnx?token=sec-word",
    "nosuch://host/m.onnx;token=sec-word",
    "simplecache::nosuch://user:sec-word@host/m.onnx",
)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3://bucket/key.onnx", None),
        ("https://user:word@host/m.onnx", "https://***@host/m.onnx"),
        ("https://token@host/m.onnx", "https://***@host/m.onnx"),
        ("https://host/m.onnx?a=1&sig=x%2Fy#part", "https://host/m.onnx?a=***&sig=***"),
        ("https://host/m.onnx?token", "https://host/m.onnx?***"),
        ("sftp://me:word@host/m.rten", "sftp://***@host/m.rten"),
        ("simplecache::https://u:p@host/m.onnx?s=1", "simplecache::https://***@host/m.onnx?s=***"),
        ("zip://in/m.onnx::https://u:p@host/a.zip", "zip://in/m.onnx::https://***@host/a.zip"),
        ("https://user:sec/word@host/m.onnx", "https://***@host/m.onnx"),
        ("HTTPS://user:word@host/m.onnx", "https://***@host/m.onnx"),
        ("zip://in/m.onnx::HTTPS://u:word@host/a.zip", "zip://in/m.onnx::HTTPS://***@host/a.zip"),
        ("https://host:8080/a@b/m.onnx", None),
        ("https://cdn.host/npm/pack@1.0/m.onnx", None),
        ("s3://KEY:SECRETword@bucket/m.onnx", "s3://***@bucket/m.onnx"),
        ("s3://KEY:SECRET/word@bucket/m.onnx", "s3://***@bucket/m.onnx"),
        ("ftp://TOKENword@host/m.onnx", "ftp://***@host/m.onnx"),
        ("https://host/m.onnx;token=word", "https://host/m.onnx;token=***"),
        ("https://host/m.onnx;token=word?sig=word", "https://host/m.onnx;token=***?sig=***"),
        ("ftp://host/m.onnx;token=word", "ftp://host/m.onnx;token=***"),
        ("abfs://container@account.dfs.core.windows.net/m.onnx", None),
        ("s3://bucket/m.onnx?versionId=3", None),
        ("hf://owner/name@main/m.onnx", None),
        ("github://org:repo@sha/m.onnx", None),
    ],
)
def test_what_is_shown_of_an_address(text: str, shown: str | None) -> None:
    """The text of an address contains no secret, but the address does."""
    address = Address(text)
    assert (shown or text) == str(address)
    assert text.partition("://")[2] == address.url.partition("://")[2]
    assert "word" not in f"{address!r}{address}"
    assert address.redact(text).count("word") == 0
    assert without_secrets(f"the file {text} is gone") == f"the file {_with_scheme(shown or text, text)} is gone"


def _with_scheme(shown: str, text: str) -> str:
    """Return an address with the scheme of another one."""
    return text.partition("://")[0] + shown[len(shown.partition("://")[0]) :]


@pytest.mark.parametrize("form", SECRET_FORMS)
@pytest.mark.parametrize(
    "line",
    [
        "{}", "convert {} o.onnx", "convert d.onnx {}", "convert d.onnx o.onnx --external-data {}", "inspect {} --json",
        "verify {} --debug", "batch {} --out o --to onnxz", "batch d.onnx --out {} --to onnxz", "cp {} o.onnx",
        "mv d.onnx {}", "rm {}", "edit d.onnx o.onnx --weights {}", "edit {} o.onnx --rename x=y", "diff {} d.onnx",
        "merge {} d.onnx o.onnx", "extract {} o.onnx --outputs y", "pack {} o.onnxz", "share {} o.onnx", "unpack {} o",
        "convert d.onnx o.onnx --allow {}", "convert d.onnx o.onnx --unknown={}", "convert d.onnx o.onnx --key-file {}",
        "convert d.onnx o.onnx --manifest {}", "convert d.onnx o.onnx --opset {}", "repair {}", "completion {}",
    ],
)  # fmt: skip
def test_no_command_prints_a_secret(form: str, line: str, digits: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """No verb prints a secret of an address, in whatever place the address was typed."""
    monkeypatch.chdir(tmp_path)
    formats.convert(digits, "d.onnx")
    done = commands.run("formats", *line.format(form).split())
    assert "sec-word" not in done.stdout + done.stderr
    assert done.exit_code in (1, 2)


def test_addresses_are_paths() -> None:
    """Attributes of a path return the parts of an address; functions that open paths refuse it."""
    address = Address("https://host/a%20b/my%20model.onnx?sig=1")
    assert ("my model.onnx", ".onnx", "my model") == (address.name, address.suffix, address.stem)
    assert "https://host/a%20b/w%20%23.data?sig=1" == address.with_name("w #.data").url
    assert "zip://in/x.data::s3://b/a.zip" == Address("zip://in/m.onnx::s3://b/a.zip").with_name("x.data").url
    assert "memory://x.data" == Address("memory://m.onnx").with_name("x.data").url
    assert "s3://b/k/x.data" == Address("s3://b/k/m.onnx?versionId=3").with_name("x.data").url
    with pytest.raises(TypeError, match="is an address"):
        os.stat(address)
    with pytest.raises(formats.OptionError, match="is an address"):
        formats.mv("s3://b/m.onnx", "x.onnx")


def test_options_of_stores() -> None:
    """Options for one kind of store do not reach another."""
    given = {"anon": True, "s3.key": "a", "gs": {"token": "b"}}
    known = ("s3", "gs", "simplecache")
    assert {"anon": True, "s3": {"key": "a"}} == Address("s3://b/k", given).options_of_store(known)
    assert {"anon": True, "gs": {"token": "b"}} == Address("gs://b/k", given).options_of_store(known)


def test_packages_that_are_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without fsspec, or a package that it needs for a store, the error says what to install."""
    with pytest.raises(FormatError, match=r"Protocol not known"):
        formats.load("nosuch://x/m.onnx")
    monkeypatch.setitem(sys.modules, "fsspec", None)
    with pytest.raises(formats.MissingPackageError, match=r"pip install 'onnx-formats\[remote\]'"):
        formats.load("memory://m.onnx")


def test_nothing_is_imported_unasked(digits: Path, tmp_path: Path) -> None:
    """A conversion of local files imports no module that addresses need."""
    code = (
        "import sys, formats; formats.convert(sys.argv[1], sys.argv[2]); formats.inspect(sys.argv[2]);"
        "found = [n for n in sys.modules if n.partition('.')[0] in ('fsspec', 'aiohttp', 's3fs', 'upath')"
        " or n in ('formats.tensordata.remote.remote_file', 'formats.tensordata.remote.address',"
        " 'formats.tensordata.remote.upload')];"
        "sys.exit(str(found) if found else 0)"
    )
    subprocess.run([sys.executable, "-c", code, str(digits), str(tmp_path / "out.onnxz")], check=True)

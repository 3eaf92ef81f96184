"""What the processes of the benchmark do: `python benchmarks/work.py FUNCTION LIBRARY MODEL DIRECTORY SMALL OPTIONS`.

Each public function here is a generator: up to its `yield` it prepares, then it works on the file MODEL and may write
into DIRECTORY. Part of preparing is to do the same with the file SMALL, where this makes a library import its parts.
OPTIONS is a JSON object of keyword arguments. The process prints the seconds from the `yield` to the end of the work;
what a function returns is alive then, so that taking a model down again does not count as loading it.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
from collections.abc import Callable, Generator, Iterator
from copy import deepcopy
from pathlib import Path
from typing import Any, NamedTuple

Work = Generator[None, None, Any]
PIECE_BYTES = 1 << 20
TENSOR, INTS = 4, 7  # AttributeProto.AttributeType


class Task(NamedTuple):
    """What to work on, where to write, and with which library: `formats`, `onnx`, `onnx_ir`, or another word."""

    library: str
    model: str
    directory: Path
    small: str

    @property
    def module(self) -> Any:
        """The library; all three have a `load` and a `save`."""
        return importlib.import_module(self.library)


# Loading


def load(task: Task) -> Work:
    """The model; of `formats`, its weights are still in the file."""
    library = task.module
    library.load(task.small)
    yield
    return library.load(task.model)


def check_archive(task: Task) -> Work:
    """Nothing, when the archive was checked by the rules of the format."""
    from formats.onnxzip.model import check_archive
    from formats.tensordata.file import File

    yield
    check_archive(File.open(task.model).span())


def materialise(task: Task) -> Work:
    """The model, its weights in memory, read by two threads."""
    import formats.onnxpb

    formats.onnxpb.load(task.small, num_threads=2)
    yield
    return formats.onnxpb.load(task.model, num_threads=2)


def touch_weights(task: Task) -> Work:
    """The model, when a byte of each page of its weights was read."""
    library = task.module
    for array in arrays(task, library.load(task.small)):
        array.reshape(-1).view("uint8")[::4096].max()
    yield
    loaded = library.load(task.model)
    for array in arrays(task, loaded):
        array.reshape(-1).view("uint8")[::4096].max()
    return loaded


def sum_weights(task: Task) -> Work:
    """The model, when every element of its weights was read."""
    library = task.module
    for array in arrays(task, library.load(task.small)):
        array.sum()
    yield
    loaded = library.load(task.model)
    for array in arrays(task, loaded):
        array.sum()
    return loaded


def arrays(task: Task, model: Any) -> Iterator[Any]:
    """The weights of a model, one by one."""
    if task.library == "onnx_ir":
        return (value.const_value.numpy() for value in model.graph.initializers.values())
    if task.library == "onnx":
        from onnx.numpy_helper import to_array

        return map(to_array, model.graph.initializer)
    return (tensor.numpy() for tensor in model.graph.initializer)


def read_pieces(task: Task) -> Work:
    """Nothing, when the file was read in pieces into the same memory."""
    buffer = bytearray(PIECE_BYTES)
    yield
    with Path(task.model).open("rb", buffering=0) as file:
        while file.readinto(buffer):
            pass


def sum_pieces(task: Task) -> Work:
    """Nothing, when the file was read in pieces, and each summed as if it were float32."""
    import numpy

    buffer = numpy.zeros(PIECE_BYTES, "uint8").view("float32")
    yield
    with Path(task.model).open("rb", buffering=0) as file, numpy.errstate(all="ignore"):
        while file.readinto(buffer.data.cast("B")):
            buffer.sum()


def read_whole(task: Task) -> Work:
    """The bytes of the file."""
    yield
    return Path(task.model).read_bytes()


def copy_pieces(task: Task, how: str, threads: int = 1, piece_bytes: int = PIECE_BYTES) -> Work:
    """Nothing, when the file was copied, or one half of that was done; each thread does every n-th piece.

    `how`: "kernel" (copy_file_range), "buffer" (pread and pwrite), "mapped source" (pwrite from a map), "mapped copy"
    (pread into a map), "read" and "write" (one half of "buffer").
    """
    import mmap
    import os
    from concurrent.futures import ThreadPoolExecutor

    yield
    nbytes = Path(task.model).stat().st_size
    with Path(task.model).open("rb") as source, (task.directory / "copy").open("w+b") as copy:
        of, to = source.fileno(), copy.fileno()
        view = memoryview(b"")
        if how == "mapped source":
            view = memoryview(mmap.mmap(of, nbytes, access=mmap.ACCESS_READ))
        if how == "mapped copy":
            copy.truncate(nbytes)
            view = memoryview(mmap.mmap(to, nbytes))

        def work(first: int) -> None:
            buffer = memoryview(bytearray(piece_bytes))
            for start in range(first * piece_bytes, nbytes, threads * piece_bytes):
                piece = (view or buffer)[start if view else 0 :][: min(piece_bytes, nbytes - start)]
                done = []
                if how == "kernel":
                    done.append(os.copy_file_range(of, to, len(piece), start, start))
                if how in ("buffer", "read", "mapped copy"):
                    done.append(os.preadv(of, [piece], start))
                if how in ("buffer", "write", "mapped source"):
                    done.append(os.pwrite(to, piece, start))
                if any(nbytes_done != len(piece) for nbytes_done in done):
                    raise OSError(f"{how}: {done} of {len(piece)} bytes at {start}")

        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, range(threads)))


def session(task: Task) -> Work:
    """A session of onnxruntime, which repacks no weights: that would read and copy them all."""
    import onnxruntime

    onnxruntime.set_default_logger_severity(3)
    start = getattr(task.module, "onnxruntime_session" if task.library == "formats" else "InferenceSession")

    def options() -> Any:
        chosen = onnxruntime.SessionOptions()
        chosen.add_session_config_entry("session.disable_prepacking", "1")
        return chosen

    start(task.small, options())
    yield
    return start(task.model, options())


def load_safetensors(task: Task) -> Work:
    """The weights in a file of safetensors."""
    from safetensors.numpy import load_file

    yield
    return load_file(task.model)


def sha256(task: Task) -> Work:
    """The SHA-256 of the file."""
    import hashlib

    digest, buffer = hashlib.sha256(), bytearray(PIECE_BYTES)
    yield
    with Path(task.model).open("rb", buffering=0) as file:
        while nbytes := file.readinto(buffer):
            digest.update(memoryview(buffer)[:nbytes])
    return digest.digest()


# Nodes


def read_nodes(task: Task, times: int = 1) -> Work:
    """The model, when every node's type, name, inputs, outputs and attributes were read, each time of a new model."""
    read = read_nodes_of_ir if task.library == "onnx_ir" else read_nodes_of_messages
    return read_again(task, task.small, read, times)


def read_again(task: Task, first: str, read: Callable[[Any], None], times: int) -> Work:
    """The model, after it was loaded and read `times` times; the file `first` is read before, which does not count."""
    library = task.module
    read(library.load(first))
    yield
    for _ in range(times):
        loaded = library.load(task.model)
        read(loaded)
    return loaded


def read_nodes_of_messages(model: Any) -> None:
    """All nodes were read; `formats` has the names of `onnx`."""
    for node in model.graph.node:
        _ = node.op_type, node.name, list(node.input), list(node.output)
        for attribute in node.attribute:
            _ = attribute.name, list(attribute.ints) if attribute.type == INTS else attribute.i


def read_nodes_of_ir(model: Any) -> None:
    """All nodes were read."""
    for node in model.graph:
        _ = node.op_type, node.name, [value.name for value in node.inputs], [value.name for value in node.outputs]
        for attribute in node.attributes.values():
            _ = attribute.name, attribute.value


def read_graph(task: Task, times: int) -> Work:
    """The model, when its nodes, values and weights were read, each time of a new model; the first does not count."""
    read = read_graph_of_ir if task.library == "onnx_ir" else read_graph_of_messages
    return read_again(task, task.model, read, times)


def read_graph_of_messages(model: Any) -> None:
    """All nodes, with their metadata and constants, all values and all weights were read, but no elements."""
    graph = model.graph
    for node in graph.node:
        _ = node.op_type, node.name, list(node.input), list(node.output)
        _ = [(entry.key, entry.value) for entry in node.metadata_props]
        for attribute in node.attribute:
            kind = attribute.type
            found = attribute.t.dims if kind == TENSOR else attribute.ints if kind == INTS else [attribute.i]
            _ = attribute.name, list(found)
    for values in (graph.input, graph.output, graph.value_info):
        for value in values:
            of = value.type.tensor_type
            _ = value.name, of.elem_type, [dim.dim_value or dim.dim_param for dim in of.shape.dim]
    for tensor in graph.initializer:
        _ = tensor.name, tensor.data_type, list(tensor.dims)


def read_graph_of_ir(model: Any) -> None:
    """The same was read."""
    read_nodes_of_ir(model)
    for node in model.graph:
        _ = [*node.metadata_props.items()]
        _ = [(value.dtype, value.shape) for value in node.outputs]
    for value in model.graph.initializers.values():
        _ = value.name, value.dtype, value.shape


def read_lists(task: Task) -> Work:
    """The lists in the attributes of every node."""
    import numpy  # noqa: F401  # onnx imports it anyway, and formats for long lists

    def read(model: Any) -> list[Any]:
        attributes = (attribute for node in model.graph.node for attribute in node.attribute)
        return [list(getattr(attribute, name)) for attribute in attributes for name in ("floats", "ints", "strings")]

    library = task.module
    read(library.load(task.small))
    yield
    return read(library.load(task.model))


def look(task: Task, verb: str) -> Work:
    """What `verify` or `inspect` tells of the model."""
    verb_of_library = getattr(task.module, verb)
    verb_of_library(task.small)
    yield
    return verb_of_library(task.model)


def diff(task: Task, changed: bool) -> Work:
    """How the model differs from a copy of it, in which a node in the middle may have another name."""
    import formats

    other = task.directory / "other.onnx"
    model = formats.load(task.model)
    if changed:
        model.graph.node[len(model.graph.node) // 2].name = "another"
    formats.save(model, other)
    del model
    formats.diff(task.small, task.small)
    yield
    return formats.diff(task.model, other)


def diff_weights(task: Task, changed: bool) -> Work:
    """How the model differs from a copy of it, in which every number may be another one; "cmp" compares the files."""
    import shutil
    import subprocess

    import formats

    other = task.directory / "other.onnx"
    shutil.copyfile(task.model, other)
    if changed:
        with other.open("r+b") as file:
            for tensor in formats.load(other).graph.initializer:
                numbers = bytearray(tensor.raw_data.read())
                numbers[::4] = numbers[::4].translate(
                    bytes(byte ^ 1 for byte in range(256))
                )  # the lowest of each float32
                file.seek(tensor.raw_data.file_offset)
                file.write(numbers)
    formats.diff(task.small, task.small)
    yield
    if task.library == "cmp":
        return subprocess.run(["cmp", task.model, other], check=not changed)
    return formats.diff(task.model, other)


def save_changed(task: Task) -> Work:
    """Nothing, when the model is in an `.onnx` file, every node with another name; loading it is preparation."""
    library = task.module
    library.save(library.load(task.small), task.directory / "small.onnx")
    loaded = library.load(task.model)
    for node in loaded.graph if task.library == "onnx_ir" else loaded.graph.node:
        node.name = f"{node.name}.changed"
    yield
    library.save(loaded, task.directory / "m.onnx")


def edit_messages(task: Task) -> Work:
    """The bytes of a model that was parsed and edited: nodes were renamed, filtered and inserted, and all copied."""
    library = task.module
    data = Path(task.model).read_bytes()
    edited(library, library.ModelProto.FromString(Path(task.small).read_bytes()))
    yield
    return edited(library, library.ModelProto.FromString(data)).SerializeToString()


def edited(library: Any, model: Any) -> Any:
    """A copy of the model with other names, without every tenth node, and with a new one at the start."""
    nodes = model.graph.node
    for node in nodes:
        node.name = f"{node.name}.changed"
    kept = [node for index, node in enumerate(nodes) if index % 10]
    del nodes[:]
    nodes.extend(kept)
    nodes.insert(0, library.NodeProto(op_type="Identity", input=["x"], output=["y"]))
    return deepcopy(model)


# Writing


def resave(task: Task, path: str = "m.onnx", load_to_model: bool = False, **options: Any) -> Work:
    """Nothing, when the model is in a file that the library writes with the options.

    `load_to_model` is what makes `onnx_ir` write external data into the model itself.
    """
    library = task.module

    def copy(source: str, target: Path) -> None:
        loaded = library.load(source)
        library.save(library.external_data.load_to_model(loaded) if load_to_model else loaded, target, **options)

    small = task.directory / "small"
    small.mkdir()
    copy(task.small, small / path)
    yield
    copy(task.model, task.directory / path)


def convert(task: Task, path: str, **options: Any) -> Work:
    """Nothing, when the model is in a file of another format, or in other data files."""
    import formats

    formats.convert(task.small, task.directory / f"small.{path}", **options)
    yield
    formats.convert(task.model, task.directory / path, **options)


def beside(task: Task, count: int) -> Work:
    """Nothing, when a model and an archive were replaced, moved and removed beside so many copies of a model."""
    import shutil

    for index in range(count):
        shutil.copyfile(task.model, task.directory / f"beside{index}.onnx")
    formats = importlib.import_module("formats")
    archive, graph = task.directory / "a.onnxz", task.directory / "a.onnx"
    formats.convert(task.small, archive)
    formats.convert(task.small, graph, external_data=True, size_threshold=0)
    yield
    formats.convert(task.small, archive, overwrite=True, backup=True)
    formats.convert(task.small, graph, external_data=True, size_threshold=0, overwrite=True, backup=True)
    for path in (archive, graph):
        formats.mv(path, path.with_stem("b"))
        formats.rm(path.with_stem("b"), all_data=True)


def to_ort(task: Task) -> Work:
    """Nothing, when onnxruntime has saved the model in its own format, without optimizing it."""
    from onnxruntime import GraphOptimizationLevel, InferenceSession, SessionOptions

    def save(model: str, name: str) -> None:
        options = SessionOptions()
        options.graph_optimization_level = GraphOptimizationLevel.ORT_DISABLE_ALL
        options.optimized_model_filepath = str(task.directory / name)
        options.add_session_config_entry("session.save_model_format", "ORT")
        InferenceSession(model, options, providers=["CPUExecutionProvider"])

    save(task.small, "small.ort")
    yield
    save(task.model, "m.ort")


def zip_entries(task: Task) -> Work:
    """Nothing, when each weight is in a zip file."""
    import zipfile

    import onnx

    onnx.load(task.small)
    yield
    with zipfile.ZipFile(task.directory / "m.zip", "w") as archive:
        for tensor in onnx.load(task.model).graph.initializer:
            archive.writestr(tensor.name, tensor.raw_data)


def zip_file(task: Task) -> Work:
    """Nothing, when the file is in a zip file."""
    import zipfile

    yield
    with zipfile.ZipFile(task.directory / "m.zip", "w") as archive:
        archive.write(task.model)


def save_arrays(task: Task, path: str = "m.onnx") -> Work:
    """Nothing, when the arrays in a file of safetensors are in a file of another kind; loading them is preparation."""
    from safetensors.numpy import load_file

    write = SAVE_ARRAYS[task.library]
    loaded = load_file(task.model)
    name = min(loaded)
    write({name: loaded[name]}, task.directory / f"small.{path}")
    yield
    write(loaded, task.directory / path)


def formats_save_arrays(arrays: dict[str, Any], path: Path) -> None:
    """The arrays are in a model."""
    import formats

    tensors = [formats.from_numpy(array, name) for name, array in arrays.items()]
    model = formats.Model(ir_version=8, graph=formats.Graph(name="g", initializer=tensors))
    formats.save(model, path)


def onnx_save_arrays(arrays: dict[str, Any], path: Path) -> None:
    """The arrays are in a model."""
    import onnx
    from onnx.numpy_helper import from_array

    tensors = [from_array(array, name) for name, array in arrays.items()]
    onnx.save(onnx.ModelProto(ir_version=8, graph=onnx.GraphProto(name="g", initializer=tensors)), path)


def safetensors_save_arrays(arrays: dict[str, Any], path: Path) -> None:
    """The arrays are in a file of safetensors."""
    from safetensors.numpy import save_file

    save_file(arrays, path)


def numpy_save_arrays(arrays: dict[str, Any], path: Path) -> None:
    """The arrays are in a file, one behind the other."""
    with path.open("wb") as file:
        for array in arrays.values():
            array.tofile(file)


SAVE_ARRAYS = {
    "formats": formats_save_arrays,
    "numpy": numpy_save_arrays,
    "onnx": onnx_save_arrays,
    "safetensors": safetensors_save_arrays,
}


def seconds_of(work: Work) -> float:
    """How long the work takes, without what prepares it."""
    next(work)
    start = time.perf_counter()
    try:
        next(work)
    except StopIteration as end:
        seconds = time.perf_counter() - start
        del end  # and with it only now what the function returned
        return seconds
    raise AssertionError("the function yields again")


def main(function: str, library: str, model: str, directory: str, small: str, options: str) -> None:
    """The seconds are printed."""
    task = Task(library, model, Path(directory), small)
    print(seconds_of(globals()[function](task, **json.loads(options))))


if __name__ == "__main__":
    main(*sys.argv[1:])

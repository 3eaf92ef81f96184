"""The command lines that every proof runs: for each verb, for each route of bytes, and for each option.

The proofs are those of faults (`tests/faults`), of mutated files (`tests/fuzzing`), and of hostile names, full streams
and links out of a folder. A new verb or option fails a test until a line here has it; each proof takes all lines, and
says why if it takes one not.
"""

from __future__ import annotations

import shutil
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import onnx
from onnx import helper, numpy_helper

import formats

# The routes of bytes through each verb. Each line works in a folder of `make_folder`, and again in the folder it leaves
# unless it says that its file is there.
ROUTES = {
    "archive": "convert m.onnx new.onnxz",
    "archive over another": "convert m.onnx two.onnxz --force",
    "data files": "convert m.onnx new.onnx --external-data --size-threshold 0 --max-external-file-size 4K",
    "data files read": "convert data.onnx new.onnxz",
    "data files replaced": "convert wide.onnx data.onnx --force --backup --clean",
    "archive read": "convert two.onnxz new.onnx --model a",
    "archive linked": "convert m.onnxz new.onnx --link",
    "lenient archive": "convert stored.onnxz new.onnx --lenient",
    "rten": "convert m.onnx new.rten",
    "rten read": "convert m.rten new.onnx",
    "ort": "convert wide.onnx new.ort",
    "ort read": "convert m.ort new.onnx",
    "encrypted": "convert m.onnx new.onnxc --key-file key",
    "decrypted": "convert m.onnxc new.onnx --key-file key",
    "text": "convert m.onnx new.textproto",
    "text read": "convert m.textproto new.onnx",
    "json": "convert m.onnx new.json",
    "json read": "convert m.json new.onnx",
    "float16": "convert wide.onnx new.onnx --dtype float16",
    "bfloat16": "convert wide.onnx new.onnx --dtype bfloat16",
    "operator set": "convert m.onnx new.onnx --opset 20",
    "operator set of a domain": "convert m.onnx new.onnx --opset ai.onnx=18",
    "batch": "batch models --out out --to onnxz --jobs 1 --parents",
    "batch with a record": "batch models --out out --to onnx --external-data --jobs 1 --parents --manifest done.jsonl",
    "dim": "edit m.onnx new.onnx --dim n=1",
    "weights of an index": "edit m.onnx new.onnx --weights w.safetensors.index.json",
    "weights of arrays": "edit m.onnx new.onnx --weights w.npz",
    "metadata of a file": "edit m.onnx new.onnx --metadata-file metadata.json",
    "names": "edit data.onnx new.onnx --rename x=images",
    "extract": "extract m.onnx new.onnx --outputs z",
    "extract a tensor": "extract data.onnx new.npy --tensor w",
    "merge": "merge m.onnx data.onnx new.onnx --prefix b/ --connect y=x",
    "inspect": "inspect data.onnx --tensors 9 --nodes",
    "picture": "inspect m.onnx --picture new.svg",
    "verify": "verify m.onnxz data.onnx --data",
    "diff": "diff m.onnx data.onnx",
    "files": "files data.onnx",
    "cp": "cp models/data.onnx copy.onnx",
    "mv": "mv models/data.onnx models/moved.onnx",
    "mv over another": "mv models/data.onnx models/m.onnx --force",
    "mv to another folder": "mv models/data.onnx moved.onnx",
    "mv to another folder over another": "mv models/data.onnx data.onnx --force --backup",
    "rm": "rm models/data.onnx",
    "share": "share m.onnx wide.onnx --out shared",
    "pack": "pack a=m.onnx data.onnx files/k=key new.onnxz",
    "unpack": "unpack two.onnxz unpacked",
    "unpack over files": "unpack two.onnxz models --force",
    "repair": "repair m.onnx data.onnx",
    "completion": "completion bash",
}


class Effect(NamedTuple):
    """A command line, and the words that an option adds to it; `code` is the exit code with them."""

    line: str
    words: str
    code: int = 0


TO_RTEN = "convert m.onnx new.rten"
TO_DATA = "convert m.onnx new.onnx --external-data"
EFFECTS = {
    "DestinationOptions.out": Effect("convert m.onnx new.onnxz", "--out other.onnxz", 2),
    "ConversionOptions.from_format": Effect("convert m.bin new.onnx", "--from onnxz", 1),
    "ConversionOptions.to_format": Effect("convert m.onnx new.onnx", "--to onnxz"),
    "ConversionOptions.strict": Effect("convert large.onnx new.rten", "--strict", 1),
    "ConversionOptions.allow": Effect("convert large.onnx new.rten --strict", "--allow range --allow clamped"),
    "ConversionOptions.lenient": Effect("convert stored.onnxz new.onnx", "--lenient"),
    "ExtractOptions.inputs": Effect("extract m.onnx new.onnx --outputs z", "--inputs s"),
    "ExtractOptions.outputs": Effect("extract m.onnx new.onnx --inputs x", "--outputs z"),
    "ExtractOptions.tensor": Effect("extract m.onnx w.npy", "--tensor w"),
    "MergeOptions.connect": Effect("merge m.onnx wide.onnx new.onnx", "--connect y=x"),
    "MergeOptions.prefix": Effect("merge m.onnx wide.onnx new.onnx", "--prefix b/"),
    "EditOptions.sort": Effect("edit m.onnx new.onnx", "--sort"),
    "EditOptions.weights": Effect("edit m.onnx new.onnx", "--weights wide.onnx"),
    "EditOptions.cast": Effect("edit m.onnx new.onnx --weights half.onnx", "--cast"),
    "EditOptions.initializer_to_input": Effect("edit m.onnx new.onnx", "--initializer-to-input w"),
    "EditOptions.input_to_initializer": Effect("edit m.onnx new.onnx", "--input-to-initializer x=array.npy"),
    "EditOptions.dim": Effect("edit m.onnx new.onnx", "--dim n=1"),
    "EditOptions.set_operator": Effect("edit image.onnx new.onnx", "--set-operator act=Softplus"),
    "EditOptions.set_domain": Effect("edit image.onnx new.onnx", "--set-domain act=mine"),
    "EditOptions.set_attribute": Effect("edit wide.onnx new.onnx", "--set-attribute LpNormalization.p=1"),
    "EditOptions.bypass": Effect("edit wide.onnx new.onnx", "--bypass Mish"),
    "EditOptions.add_output": Effect("edit m.onnx new.onnx", "--add-output s"),
    "EditOptions.remove_output": Effect("edit m.onnx new.onnx --add-output s", "--remove-output y"),
    "EditOptions.fold": Effect("edit m.onnx new.onnx --dim n=1", "--fold"),
    "EditOptions.prune": Effect("edit m.onnx new.onnx", "--prune"),
    "EditOptions.uint8_input": Effect("edit image.onnx new.onnx", "--uint8-input image"),
    "EditOptions.scale": Effect("edit image.onnx new.onnx --uint8-input image", "--scale 1/255"),
    "EditOptions.mean": Effect("edit image.onnx new.onnx --uint8-input image", "--mean 0.5,0.4,0.3"),
    "EditOptions.std": Effect("edit image.onnx new.onnx --uint8-input image", "--std 0.5"),
    "EditOptions.layout": Effect("edit image.onnx new.onnx", "--layout image=NHWC"),
    "EditOptions.prefix": Effect("edit m.onnx new.onnx", "--prefix a/"),
    "EditOptions.strip_docs": Effect("edit m.onnx new.onnx", "--strip-docs"),
    "EditOptions.strip_training": Effect("edit m.onnx new.onnx", "--strip-training"),
    "EditOptions.rename": Effect("edit m.onnx new.onnx", "--rename x=images"),
    "MetadataOptions.metadata": Effect("convert m.onnx new.onnx", "--metadata license=MIT"),
    "RuntimeOptions.opset": Effect("convert wide.onnx new.onnx", "--opset 20"),
    "RuntimeOptions.ir_version": Effect("convert wide.onnx new.onnx", "--ir-version 9"),
    "RuntimeOptions.dtype": Effect("convert wide.onnx new.onnx", "--dtype float16"),
    "RuntimeOptions.keep": Effect("convert wide.onnx new.onnx --dtype float16 --keep-io-types", "--keep *"),
    "RuntimeOptions.keep_io_types": Effect("convert wide.onnx new.onnx --dtype float16", "--keep-io-types"),
    "RuntimeOptions.int32": Effect("convert wide.onnx new.onnx", "--int32"),
    "RuntimeOptions.weights_dtype": Effect("convert wide.onnx new.onnx", "--weights-dtype int4"),
    "RuntimeOptions.block": Effect("convert wide.onnx new.onnx --weights-dtype int4", "--block 16"),
    "RuntimeOptions.channel_block": Effect("convert blocked.ort new.rten --force", "--channel-block 16"),
    "RuntimeOptions.runtime": Effect("convert wide.onnx new.onnx", "--runtime rten"),
    "EngineOptions.threads": Effect(f"{TO_DATA}", "--threads 3"),
    "EngineOptions.overwrite": Effect("convert m.onnx m.rten", "--force"),
    "ReplacementOptions.backup": Effect("convert m.onnx wide.onnx --force", "--backup"),
    "ReplacementOptions.clean": Effect("convert m.onnx data.onnx --force", "--clean"),
    "EngineOptions.parents": Effect("convert m.onnx deep/er/new.onnx", "--parents"),
    "EngineOptions.dry_run": Effect(TO_RTEN, "--dry-run"),
    "EngineOptions.fsync": Effect(TO_RTEN, "--fsync"),
    "OutputOptions.quiet": Effect("inspect m.onnx", "--quiet"),
    "OutputOptions.json": Effect("inspect m.onnx", "--json"),
    "OutputOptions.debug": Effect("inspect missing.onnx", "--debug", 1),
    "CheckOptions.check": Effect("convert wide.onnx new.onnx", "--check"),
    "CheckOptions.check_inputs": Effect("convert wide.onnx new.onnx", "--check-inputs x.npz"),
    "NoteOptions.notes": Effect("convert wide.onnx new.rten", "--notes"),
    "SeveralOptions.jobs": Effect("batch m.onnx data.onnx --out new --to onnxz --parents --jobs 1", "--jobs 2"),
    "SeveralOptions.fail_fast": Effect(
        "batch bad1.onnx bad2.onnx --out new --to onnxz --jobs 1 --parents", "--fail-fast", 1
    ),
    "SeveralOptions.manifest": Effect("batch m.onnx --out new --to onnxz --parents", "--manifest done.jsonl"),
    "ReadOptions.max_depth": Effect("inspect m.onnx", "--max-depth 1", 1),
    "ReadOptions.hard_links": Effect("inspect data.onnx", "--no-hard-links", 1),
    "ReadOptions.no_data": Effect("convert data.onnx new.onnx", "--no-data"),
    "ReadOptions.key": Effect("inspect m.onnxc", "--key-file key"),
    "ReadOptions.allow_encryption": Effect("inspect old.onnxc --key-file key", "--allow-encryption 1"),
    "OnnxOptions.external_data": Effect("convert m.onnx new.onnx", "--external-data"),
    "OnnxOptions.size_threshold": Effect(TO_DATA, "--size-threshold 1M"),
    "OnnxOptions.alignment": Effect(TO_DATA, "--alignment 8K"),
    "OnnxOptions.max_external_file_size": Effect(TO_DATA, "--max-external-file-size 4K"),
    "OnnxOptions.one_file_per_tensor": Effect(TO_DATA, "--one-file-per-tensor"),
    "OnnxOptions.checksum": Effect(TO_DATA, "--checksum"),
    "OnnxOptions.strip_weights": Effect(TO_DATA, "--strip-weights"),
    "OnnxOptions.dedup": Effect("convert m.onnx new.onnx", "--dedup"),
    "OnnxOptions.data_names": Effect("convert m.onnx new.onnx --external-data", "--data-names transformers.js"),
    "OnnxOptions.link": Effect("convert m.onnxz new.onnx", "--link"),
    "OnnxOptions.same_data": Effect("convert data.onnx new.onnx", "--same-data"),
    "ArchiveOptions.size_threshold": Effect("convert m.onnx new.onnxz", "--size-threshold 1M"),
    "ArchiveOptions.alignment": Effect("convert m.onnx new.onnxz", "--alignment 8K"),
    "ArchiveOptions.dedup": Effect("convert m.onnx new.onnxz", "--dedup"),
    "ArchiveOptions.sha256": Effect("convert m.onnx new.onnxz", "--sha256"),
    "RtenOptions.onnx_hash": Effect(TO_RTEN, "--no-onnx-hash"),
    "RtenOptions.exact": Effect("convert wide.onnx new.rten", "--exact"),
    "RtenOptions.rten_version": Effect(TO_RTEN, "--rten-version 1"),
    "CryptOptions.key": Effect("convert m.onnx new.onnxc", "--key-file key"),
    "CryptOptions.encryption": Effect("convert m.onnx new.onnxc --key-file key", "--encryption 2"),
    "TextOptions.external_data": Effect("convert data.onnx new.textproto", "--no-external-data"),
    "RaisingOptions.pin": Effect("convert m.rten new.onnx", "--pin x=float16"),
    "BatchOptions.out": Effect("batch m.onnx --to onnxz --parents", "--out new"),
    "BatchOptions.list": Effect("batch m.onnx --out new --to onnxz --parents", "--list names.txt"),
    "BatchOptions.shard": Effect("batch m.onnx data.onnx --out new --to onnxz --parents --jobs 1", "--shard 1/2"),
    "FileOptions.format": Effect("inspect m.bin", "--from onnxz", 1),
    "RuntimeQuestion.runtime": Effect("inspect wide.onnx", "--runtime rten"),
    "InspectOptions.tensors": Effect("inspect m.onnx", "--tensors 1"),
    "InspectOptions.nodes": Effect("inspect m.onnx", "--nodes"),
    "InspectOptions.params": Effect("inspect m.onnx", "--params"),
    "InspectOptions.shapes": Effect("inspect m.onnx", "--shapes"),
    "InspectOptions.macs": Effect("inspect m.onnx", "--macs"),
    "InspectOptions.dim": Effect("inspect m.onnx --macs", "--dim n=1"),
    "PictureOptions.picture": Effect("inspect m.onnx", "--picture new.svg"),
    "PictureOptions.overwrite": Effect("inspect m.onnx --picture old.svg", "--force"),
    "ReadOptions.model": Effect("convert two.onnxz new.onnx", "--model a"),
    "VerifyOptions.data": Effect("verify m.onnxz", "--data"),
    "VerifyOptions.original": Effect("verify m.rten --data", "--original m.onnx"),
    "VerifyOptions.threads": Effect("verify m.onnxz --data", "--threads 3"),
    "DiffOptions.storage": Effect("diff m.onnx data.onnx", "--storage", 1),
    "DiffOptions.limit": Effect("diff m.onnx wide.onnx", "--limit 1", 1),
    "RelocationOptions.overwrite": Effect("cp m.onnx wide.onnx", "--force"),
    "RelocationOptions.parents": Effect("cp m.onnx deep/er/new.onnx", "--parents"),
    "RelocationOptions.dry_run": Effect("cp m.onnx new.onnx", "--dry-run"),
    "RelocationOptions.fsync": Effect("cp m.onnx new.onnx", "--fsync"),
    "RemovalOptions.all_data": Effect("rm data.onnx", "--all-data"),
    "RemovalOptions.dry_run": Effect("rm m.onnx", "--dry-run"),
    "IntoOptions.out": Effect("share m.onnx wide.onnx", "--out new"),
    "ShareOptions.external_data": Effect("share m.onnx wide.onnx --out new", "--external-data w.data"),
    "ShareOptions.size_threshold": Effect("share m.onnx wide.onnx --out new", "--size-threshold 1M"),
    "PackingOptions.default": Effect("pack a=m.onnx b=wide.onnx new.onnxz", "--default a"),
    "PackingOptions.size_threshold": Effect("pack m.onnx wide.onnx new.onnxz", "--size-threshold 1M"),
    "PackingOptions.alignment": Effect("pack m.onnx wide.onnx new.onnxz", "--alignment 8K"),
    "FolderOptions.parents": Effect("unpack m.onnxz deep/er", "--parents"),
    "FolderOptions.overwrite": Effect("unpack m.onnxz .", "--force"),
    "ShareOptions.alignment": Effect("share m.onnx wide.onnx --out new", "--alignment 8K"),
}


# All command lines, also those with the options; a batch works in the process of the test.
LINES = {
    name: f"{line} --jobs 1" if line.startswith("batch ") else line
    for name, line in [*ROUTES.items(), *((name, f"{line} {words}") for name, (line, words, _) in EFFECTS.items())]
}


WEIGHT = np.arange(1024, dtype="float32").reshape(32, 32)


def make_models(path: Path, grow: Callable[[onnx.ModelProto], object] = id) -> None:
    """Write the models of which the other files are made; `grow` gets each before."""
    weights = [
        numpy_helper.from_array(array, name) for array, name in ((WEIGHT, "w"), (WEIGHT + 1, "v"), (WEIGHT, "u"))
    ]
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 32]) for name in "xy")
    nodes = [helper.make_node("MatMul", [a, b], [c]) for a, b, c in (("x", "w", "s"), ("s", "u", "z"), ("z", "v", "y"))]
    plain = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], weights), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    nodes[-1:] = [
        helper.make_node("DynamicQuantizeLinear", ["z"], ["q", "scale", "zero"]),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["d"]),
        helper.make_node("LpNormalization", ["d"], ["n"]),
        helper.make_node("Mish", ["n"], ["y"]),
    ]
    wide = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], weights), opset_imports=[helper.make_opsetid("", 22)], ir_version=10
    )
    nodes[-1:] = [
        helper.make_node("Cast", ["n"], ["whole"], to=onnx.TensorProto.INT64),
        helper.make_node("Add", ["whole", "large"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["y"], to=onnx.TensorProto.FLOAT),
    ]
    number = numpy_helper.from_array(np.array([1 << 40]), "large")
    large = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], [*weights, number]),
        opset_imports=[helper.make_opsetid("", 22)],
        ir_version=10,
    )
    ends = [helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, ["n", 3, 4, 5]) for name in ("image", "out")]
    pixels = helper.make_graph([helper.make_node("Relu", ["image"], ["out"], name="act")], "g", ends[:1], ends[1:])
    image = helper.make_model(pixels, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    for model in (image, plain, wide, large):
        grow(model)
    onnx.save(image, path / "image.onnx")
    onnx.save(plain, path / "m.onnx")
    onnx.save(large, path / "large.onnx")
    onnx.save(wide, path / "wide.onnx")
    onnx.save(plain, path / "data.onnx", save_as_external_data=True, location="weights.bin", size_threshold=0)


def make_folder(path: Path, grow: Callable[[onnx.ModelProto], object] = id) -> None:
    """Write the files that the command lines name; `grow` gets each model before."""
    make_models(path, grow)
    shutil.copy(path / "m.onnx", path / "m.bin")
    shutil.copy(Path(__file__).parent / "ort" / "layouts" / "trained.16.ort", path / "blocked.ort")
    np.savez(path / "x.npz", x=np.ones((2, 32), "float32"))
    (path / "key").write_text("secret words")
    (path / "names.txt").write_text("data.onnx\n")
    (path / "old.svg").write_text("old")
    for name in ("bad1.onnx", "bad2.onnx"):
        (path / name).write_bytes(b"bad")
    formats.convert(path / "m.onnx", path / "m.onnxz")
    formats.pack([f"a={path / 'm.onnx'}", path / "wide.onnx"], path / "two.onnxz")
    for suffix in ("rten", "textproto", "json"):
        formats.convert(path / "m.onnx", path / f"m.{suffix}")
    formats.convert(path / "m.onnx", path / "m.onnxc", key="secret words")
    formats.convert(path / "m.onnx", path / "old.onnxc", key="secret words", encryption=1)
    formats.extract(path / "m.onnx", path / "part.safetensors", tensor="w")
    np.save(path / "array.npy", WEIGHT)
    formats.convert(path / "m.onnx", path / "half.onnx", dtype="float16")
    np.savez_compressed(path / "w.npz", w=WEIGHT)
    (path / "metadata.json").write_text('{"license": "MIT"}')
    (path / "w.safetensors.index.json").write_text('{"weight_map": {"w": "part.safetensors"}}')
    (path / "models").mkdir()
    shutil.copy(path / "m.onnx", path / "models")
    formats.convert(path / "wide.onnx", path / "models" / "data.onnx", size_threshold=0, max_external_file_size=5000)
    formats.convert(path / "wide.onnx", path / "m.ort")
    with zipfile.ZipFile(path / "m.onnxz") as archive, zipfile.ZipFile(path / "stored.onnxz", "w") as stored:
        for name in archive.namelist():
            stored.writestr(name, archive.read(name), zipfile.ZIP_STORED)

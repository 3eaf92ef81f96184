"""The cases of the benchmark: what is done, by which tools, and what is asked of ours."""

from __future__ import annotations

import json
from typing import NamedTuple

MIB = 1 << 20


class Target(NamedTuple):
    """What a figure may be at most: `limit` times that of `tool`, or `limit` bytes if there is no tool.

    Figures: "whole" for the process from start to end, "work" without start-up, "peak" of the memory.
    """

    figure: str
    limit: float
    tool: str = ""


class Way(NamedTuple):
    """How a tool does the work of a case.

    In `command`, `{model}` stands for the file to read, `{folder}` for the folder with nothing but it, `{small}` for
    the small model in the same form, and `{out}` for the folder to write to. `model` is the name of another model than
    the case's. With `starts_up`, what the command takes with the small model is its start-up.
    """

    tool: str
    command: tuple[str, ...]
    targets: tuple[Target, ...] = ()
    model: str = ""
    starts_up: bool = False

    @property
    def ours(self) -> bool:
        """Whether the tool is this one."""
        return self.command[0] == "convert" or "formats" in self.command


class Case(NamedTuple):
    """Work that several tools can do; the first is what the others are compared with. For models see models.py."""

    name: str
    title: str
    model: str
    ways: tuple[Way, ...]

    def model_of(self, way: Way) -> str:
        """The name of the model that a tool reads."""
        return way.model or self.model


def case(name: str, title: str, model: str, *ways: Way) -> Case:
    """A case."""
    return Case(name, title, model, ways)


def work(limit: float, tool: str) -> Target:
    """At most `limit` times what another tool takes, start-up not counted."""
    return Target("work", limit, tool)


def whole(limit: float, tool: str) -> Target:
    """At most `limit` times what another tool takes, start-up counted."""
    return Target("whole", limit, tool)


# Tools


def convert(arguments: str, *targets: Target) -> Way:
    """Our command: `arguments` are the name of the file to write, and options."""
    name, *options = arguments.split()
    command = ("convert", "{model}", f"{{out}}/{name}", *options)
    return Way(" ".join(["formats", *options]), command, targets, starts_up=True)


def python(function: str, library: str = "-", *targets: Target, tool: str = "", **options: object) -> Way:
    """A function of work.py with a library."""
    command = ("work", function, library, "{model}", "{out}", "{small}", json.dumps(options))
    return Way(tool or library, command, targets)


CP = Way("cp", ("cp", "-r", "{folder}", "{out}/copy"))
CP_SYNC = Way("cp and sync", ("sh", "-c", 'cp -r "$0" "$1" && sync "$1"/*', "{folder}", "{out}/copy"))
ZIP = Way("zip -0", ("zip", "-q", "-0", "-r", "{out}/m.zip", "{folder}"))
RTEN = Way("rten-convert", ("rten-convert", "{model}", "{out}/m.rten"), starts_up=True)
RTEN_QUICK = Way(
    "rten-convert --no-infer-shapes", ("rten-convert", "--no-infer-shapes", *RTEN.command[1:]), starts_up=True
)
ONNX = python("resave", "onnx")
ONNX_EXTERNAL = python("resave", "onnx", save_as_external_data=True, location="m.data")
ONNX_IR = python("resave", "onnx_ir")
ONNX_IR_EXTERNAL = python("resave", "onnx_ir", external_data="m.data")

PEAK = Target("peak", 120 * MIB)
AS_CP = (work(1.2, "cp"), PEAK)
TO_RTEN = (*AS_CP, whole(1 / 15, RTEN.tool), whole(1 / 5, RTEN_QUICK.tool))
TO_ONNX = (*AS_CP, whole(1 / 8, "onnx"))


# Large weights: 1 GiB, in whatever form

INLINE, EXTERNAL = "float32-256.onnx", "float32-256.external"
ONNX_OF_INLINE = ONNX._replace(model=INLINE)

CONVERSIONS = (
    case(
        "inline-to-rten",
        "1 GiB .onnx to .rten",
        INLINE,
        CP,
        convert("m.rten", *TO_RTEN),
        convert("m.rten --onnx-hash", work(1, "SHA-256"), PEAK),
        python("sha256", tool="SHA-256"),
        RTEN,
        RTEN_QUICK,
    ),
    case(
        "inline-to-onnxz",
        "1 GiB .onnx to .onnxz",
        INLINE,
        CP,
        convert("m.onnxz", *AS_CP, whole(1 / 3, "zip -0")),
        ZIP,
        python("zip_file", tool="zipfile"),
    ),
    case(
        "inline-to-external",
        "1 GiB .onnx to external data",
        INLINE,
        CP,
        convert("m.onnx --external-data", *TO_ONNX),
        ONNX_EXTERNAL,
        ONNX_IR_EXTERNAL,
    ),
    case(
        "inline-on-disk",
        "1 GiB .onnx, forced to the disk",
        INLINE,
        CP,
        CP_SYNC,
        convert("m.onnxz --fsync", work(1.3, CP_SYNC.tool), PEAK),
        convert("m.onnx --external-data --fsync", PEAK),
    ),
    case(
        "inline-to-split",
        "1 GiB .onnx to several data files",
        INLINE,
        CP,
        convert("m.onnx --external-data --max-external-file-size 256M", *TO_ONNX),
        convert("m.onnx --external-data --one-file-per-tensor", *TO_ONNX),
        python("resave", "onnx", save_as_external_data=True, all_tensors_to_one_file=False),
        python("resave", "onnx_ir", external_data="m.data", max_shard_size_bytes=256 * MIB),
    ),
    case(
        "inline-to-aligned",
        "1 GiB .onnx to external data in steps of 4 KiB",
        INLINE,
        CP,
        convert("m.onnx --external-data --alignment 4K", *TO_ONNX),
        ONNX_EXTERNAL,
        python("resave", "onnx_ir", external_data="m.data", alignment=4096, align_threshold=0),
    ),
    case("inline-to-inline", "1 GiB .onnx to .onnx", INLINE, CP, convert("m.onnx", *TO_ONNX), ONNX, ONNX_IR),
    case("rten-to-inline", "1 GiB .rten to .onnx", "float32-256.rten", CP, convert("m.onnx", *TO_ONNX), ONNX_OF_INLINE),
    case(
        "onnxz-to-inline", "1 GiB .onnxz to .onnx", "float32-256.onnxz", CP, convert("m.onnx", *TO_ONNX), ONNX_OF_INLINE
    ),
    case(
        "external-to-inline",
        "1 GiB of external data to .onnx",
        EXTERNAL,
        CP,
        convert("m.onnx --no-external-data", *TO_ONNX),
        ONNX,
        python("resave", "onnx_ir", load_to_model=True),
    ),
    case(
        "external-to-external",
        "1 GiB of external data to the same",
        EXTERNAL,
        CP,
        convert("m.onnx --external-data", *TO_ONNX),
        ONNX_EXTERNAL,
        ONNX_IR_EXTERNAL,
    ),
    case("external-to-onnxz", "1 GiB of external data to .onnxz", EXTERNAL, CP, convert("m.onnxz", *AS_CP), ZIP),
    case(
        "external-to-rten", "1 GiB of external data to .rten", EXTERNAL, CP, convert("m.rten", *AS_CP), RTEN, RTEN_QUICK
    ),
)

COMPARING = (
    case(
        "diff",
        "two .onnx of 1 GiB: compare",
        INLINE,
        python("diff_weights", "cmp", changed=False),
        python("diff_weights", "formats", work(1.2, "cmp"), PEAK, tool="formats, equal", changed=False),
        python("diff_weights", "formats", work(1.2, "cmp"), PEAK, tool="formats, all different", changed=True),
    ),
)

LOADING_AND_SAVING = (
    case(
        "load",
        "1 GiB .onnx: load",
        INLINE,
        python("load", "onnx"),
        python("load", "formats", work(0.01, "onnx")),
        python("load", "onnx_ir"),
    ),
    case(
        "load-touch",
        "1 GiB .onnx: load, touch each page of the weights",
        INLINE,
        python("read_pieces", tool="read"),
        python("touch_weights", "formats", work(1.1, "read")),
        python("touch_weights", "onnx"),
        python("touch_weights", "onnx_ir"),
    ),
    case(
        "load-sum",
        "1 GiB .onnx: load, sum the weights",
        INLINE,
        python("sum_pieces", tool="read"),
        python("sum_weights", "formats", work(1.1, "read")),
        python("sum_weights", "onnx"),
        python("sum_weights", "onnx_ir"),
    ),
    case(
        "load-into-memory",
        "1 GiB .onnx: load into memory",
        INLINE,
        python("load", "onnx"),
        python("materialise", "formats", work(1 / 2, "onnx")),
        python("read_whole", tool="read"),
        python("load_safetensors", tool="safetensors")._replace(model="float32-256.safetensors"),
    ),
    case(
        "save-from-memory",
        "1 GiB of arrays: save",
        "float32-256.safetensors",
        python("save_arrays", "numpy", tool="numpy tofile"),
        python("save_arrays", "formats"),
        python("save_arrays", "formats", tool="formats .onnxz", path="m.onnxz"),
        python("save_arrays", "onnx"),
        python("save_arrays", "safetensors"),
    ),
)

SESSIONS = (
    case(
        "sessions",
        "1 GiB: onnxruntime session",
        INLINE,
        python("session", "onnxruntime"),
        python("session", "formats", work(0.1, "onnxruntime"), PEAK),
        python("session", "formats", work(0.1, "onnxruntime"), PEAK, tool="formats .onnxz")._replace(
            model="float32-256.onnxz"
        ),
    ),
)


# Large graphs

NODES, TENSORS = "nodes-40000.onnx", "tensors-100000.onnx"
PEAK_OF_TENSORS = Target("peak", 150 * MIB)

LARGE_GRAPHS = (
    case(
        "nodes-load",
        "40,000 nodes: load",
        NODES,
        python("load", "onnx"),
        python("load", "formats", work(1 / 2, "onnx")),
        python("load", "formats", work(1 / 2, "onnx"), work(1.5, "formats"), tool="formats .onnxz")._replace(
            model="nodes-40000.onnxz"
        ),
        python("load", "onnx_ir"),
    ),
    case(
        "nodes-read",
        "40,000 nodes: load, read all",
        NODES,
        python("read_nodes", "onnx"),
        python("read_nodes", "formats", work(0.6, "onnx"), work(1 / 6, "onnx_ir")),
        python("read_nodes", "onnx_ir"),
    ),
    case(
        "nodes-read-repeated",
        "40,000 nodes: load, read all, three times in one process",
        NODES,
        python("read_nodes", "onnx", times=3),
        python("read_nodes", "formats", work(0.6, "onnx"), times=3),
    ),
    case(
        "nodes-resave",
        "40,000 nodes: load, save",
        NODES,
        ONNX,
        python("resave", "formats", work(1, "onnx")),
        python("resave", "formats", work(1, "onnx"), tool="formats .onnxz", path="m.onnxz"),
        ONNX_IR,
    ),
    case(
        "nodes-changed",
        "40,000 nodes, each changed: save",
        NODES,
        python("save_changed", "onnx"),
        python("save_changed", "formats", work(1.2, "onnx"), work(1, "onnx_ir")),
        python("save_changed", "onnx_ir"),
    ),
    case("nodes-to-rten", "40,000 nodes to .rten", NODES, RTEN, convert("m.rten", whole(1 / 5, RTEN.tool)), RTEN_QUICK),
)

SMALL_TENSORS = (
    case(
        "tensors-load",
        "100,000 tensors: load",
        TENSORS,
        python("load", "onnx"),
        python("load", "formats"),
        python("load", "formats", work(2, "formats"), PEAK_OF_TENSORS, tool="formats .onnxz")._replace(
            model="tensors-100000.onnxz"
        ),
        python(
            "check_archive", "formats", work(1.5, "formats"), PEAK_OF_TENSORS, tool="formats .onnxz, checked"
        )._replace(model="tensors-100000.onnxz"),
        python("load", "onnx_ir"),
    ),
    case(
        "tensors-to-external",
        "100,000 tensors to external data",
        TENSORS,
        CP,
        convert("m.onnx --external-data", work(0.4, "onnx")),
        ONNX_EXTERNAL,
        ONNX_IR_EXTERNAL,
    ),
    case(
        "tensors-to-onnxz",
        "100,000 tensors to .onnxz",
        TENSORS,
        CP,
        convert("m.onnxz", work(0.8, "zipfile"), PEAK_OF_TENSORS),
        python("zip_entries", "onnx", tool="zipfile"),
    ),
    case("tensors-to-rten", "100,000 tensors to .rten", TENSORS, CP, convert("m.rten"), RTEN, RTEN_QUICK),
)


# Even larger graphs

MANY_NODES, MOST_NODES_OF_RTEN = "nodes-400000.onnx", "nodes-160000.onnx"

LARGEST_GRAPHS = (
    case(
        "many-nodes",
        "400,000 nodes: load, save; verify and diff",
        MANY_NODES,
        ONNX,
        python("look", "formats", work(2.5, "onnx"), tool="formats verify", verb="verify"),
        python("diff", "formats", work(1, "onnx"), PEAK, tool="formats diff, equal", changed=False),
        python(
            "diff",
            "formats",
            work(5, "onnx"),
            Target("peak", 500 * MIB),
            tool="formats diff, changed",
            changed=True,
        ),
    ),
    case(
        "many-nodes-rten",
        "160,000 nodes to .rten, and back",
        MOST_NODES_OF_RTEN,
        ONNX,
        python("convert", "formats", tool="formats .rten", path="m.rten"),
        python("convert", "formats", work(10, "onnx"), tool="formats .rten to .onnx", path="m.onnx")._replace(
            model="nodes-160000.rten"
        ),
    ),
    case(
        "nodes-ort",
        "20,000 nodes to .ort, and back",
        "nodes-20000.onnx",
        python("to_ort", "onnxruntime"),
        python("convert", "formats", work(2, "onnxruntime"), tool="formats .ort", path="m.ort"),
        python("convert", "formats", work(2, "onnxruntime"), tool="formats .ort to .onnx", path="m.onnx")._replace(
            model="nodes-20000.ort"
        ),
    ),
)


# Small graphs as exporters write them


def exported(kind: str, exporter: str) -> Case:
    """A graph of two layers, which is loaded and read again and again in one process."""
    return case(
        f"{kind}-read",
        f"a small graph of {exporter}: load, read all, 200 times",
        f"{kind}-2.onnx",
        python("read_graph", "onnx", times=200),
        python("read_graph", "formats", work(1, "onnx"), times=200),
        python("read_graph", "onnx_ir", times=200),
    )


SMALL_GRAPHS = (
    exported("torchscript", "PyTorch's older exporter"),
    exported("dynamo", "PyTorch's newer exporter"),
)


# Long lists in attributes

TREES, FOREST = "trees-5000000.onnx", "forest-750000.onnx"


def lists(name: str, title: str, model: str) -> Case:
    """All lists of a tree ensemble."""
    return case(
        name,
        f"{title}: load, read all",
        model,
        python("read_lists", "onnx"),
        python("read_lists", "formats", work(1.5, "onnx")),
    )


LISTS = (
    case(
        "trees-resave",
        "a tree ensemble of 45 million elements: load, save",
        TREES,
        ONNX,
        python("resave", "formats", work(1, "onnx"), PEAK),
        python("resave", "formats", work(1, "onnx"), PEAK, tool="formats .onnxz", path="m.onnxz"),
        python("look", "formats", work(1, "onnx"), PEAK, tool="formats inspect", verb="inspect"),
        python("look", "formats", work(1, "onnx"), PEAK, tool="formats verify", verb="verify"),
    ),
    lists("trees-read", "a tree ensemble of 45 million elements", TREES),
    lists("forest-read", "a random forest of 750,000 nodes", FOREST),
)


# Numbers in typed fields


def typed(name: str, title: str, model: str) -> Case:
    """25 million numbers in typed fields, to external data and to `.rten`."""
    return case(
        f"{name}-to-external",
        f"25 million numbers in {title} to external data",
        model,
        ONNX_EXTERNAL,
        convert("m.onnx --external-data", work(0.7, "onnx"), PEAK),
        convert("m.rten", work(1, "onnx"), PEAK)._replace(tool="formats .rten"),
    )


TYPED = (
    typed("unpacked", "unpacked typed fields", "unpacked-12500000.onnx"),
    typed("typed", "typed fields", "typed-12500000.onnx"),
)


# Types that RTen lacks, and small models

OTHER_TYPES = (
    case(
        "float16-to-rten",
        "512 MiB of float16 to .rten",
        "float16-256.onnx",
        CP._replace(tool="cp of 1 GiB", model=INLINE),  # as much as is written
        convert("m.rten", work(2, "cp of 1 GiB"), PEAK),
        RTEN,
    ),
    case(
        "int64-to-rten", "512 MiB of int64 to .rten", "int64-64.onnx", CP, convert("m.rten", work(2, "cp"), PEAK), RTEN
    ),
)

SMALL_MODELS = (
    case(
        "start-up",
        "50 KB .onnx to .rten",
        "small.onnx",
        Way("import numpy", ("python", "-c", "import numpy")),
        convert("m.rten", whole(2.5, "import numpy"), whole(1.1, RTEN.tool))._replace(starts_up=False),
        RTEN._replace(starts_up=False),
    ),
    case(
        "start-up-others",
        "50 KB .onnx: options, inspect, verify",
        "small.onnx",
        Way("import numpy", ("python", "-c", "import numpy")),
        convert("m.onnxz --quiet --alignment 4K", whole(2, "import numpy"))._replace(starts_up=False),
        *(
            Way(f"formats {verb}", ("formats", verb, "{model}"), (whole(2, "import numpy"),))
            for verb in ("inspect", "verify")
        ),
    ),
)


# How cost grows


def scaling(name: str, title: str, model: str, largest: int, way: Way, parts: tuple[int, ...] = (8, 4, 2, 1)) -> Case:
    """The same work on parts of the model, smallest first; a quarter more than in proportion is within the noise."""
    ways = []
    for part in parts:
        factor = parts[0] // part
        targets = [work(1.25 * factor, "1 x")] if factor > 1 else []
        ways.append(
            way._replace(tool=f"{factor} x", model=model.format(largest // part), targets=(*way.targets, *targets))
        )
    return case(name, title, ways[0].model, *ways)


def shards(name: str, title: str, way: Way, count: int = 25_600) -> Case:
    """Weights of 4 MiB, all of them holes, in 40 data files; a quarter, a half and all of them."""
    return scaling(name, title, "sparse-{}.shards", count, way._replace(targets=(PEAK,)), parts=(4, 2, 1))


RESHARD = {"path": "m.onnx", "external_data": True, "max_external_file_size": 1 << 30}

GROWTH = (
    scaling(
        "scaling-bytes",
        "128 MiB to 1 GiB .onnx to .onnxz",
        "float32-{}.onnx",
        256,
        python("convert", "formats", path="m.onnxz"),
    ),
    scaling(
        "scaling-nodes",
        "5,000 to 40,000 nodes to .rten",
        "nodes-{}.onnx",
        40_000,
        python("convert", "formats", path="m.rten"),
    ),
    shards("shards-load", "25 to 100 GiB in 40 files: load", python("load", "formats")),
    shards("shards-inspect", "25 to 100 GiB in 40 files: inspect", python("look", "formats", verb="inspect")),
    shards(
        "shards-plan",
        "25 to 100 GiB in 40 files to files of 1 GiB: dry run",
        python("convert", "formats", **RESHARD, dry_run=True),
    ),
    shards(
        "shards-to-shards", "1 to 4 GiB in 40 files to files of 1 GiB", python("convert", "formats", **RESHARD), 1024
    ),
)


# How fast this machine copies at all: what a conversion can reach


def copying(how: str, threads: int = 1, piece: str = "1M") -> Way:
    """Copying in pieces by one system call or two, with some threads."""
    pieces = {"128K": MIB >> 3, "1M": MIB, "16M": MIB << 4}
    tool = f"{how}, {piece}, {threads} thread{'s' * (threads > 1)}"
    return python("copy_pieces", tool=tool, how=how, threads=threads, piece_bytes=pieces[piece])


ROOFLINE = (
    case(
        "roofline",
        "1 GiB: copy",
        INLINE,
        CP,
        Way("dd bs=128K", ("dd", "if={model}", "of={out}/copy", "bs=128K", "status=none")),
        Way("dd bs=1M", ("dd", "if={model}", "of={out}/copy", "bs=1M", "status=none")),
        Way("dd bs=16M", ("dd", "if={model}", "of={out}/copy", "bs=16M", "status=none")),
        copying("kernel", piece="16M"),
        copying("kernel", threads=2),
        *(copying("buffer", threads, piece) for piece in ("128K", "1M", "16M") for threads in (1, 2)),
        copying("mapped source"),
        copying("mapped source", threads=2),
        copying("mapped copy"),
        copying("mapped copy", threads=2),
        *(copying(how, threads) for how in ("read", "write") for threads in (1, 2)),
    ),
)


# More than 2 GiB, where others fail

OVER_TWO, FIVE, EIGHT = "float32-640.onnx", "float32-1280.onnx", "sparse-2048.onnx"

LARGE_CASES = (
    case("2.5-gib-to-rten", "2.5 GiB .onnx to .rten", OVER_TWO, CP, convert("m.rten", *AS_CP), RTEN),
    case("2.5-gib-to-onnxz", "2.5 GiB .onnx to .onnxz", OVER_TWO, CP, convert("m.onnxz", *AS_CP), ZIP),
    case(
        "2.5-gib-to-external",
        "2.5 GiB .onnx to external data",
        OVER_TWO,
        CP,
        convert("m.onnx --external-data", *AS_CP),
        ONNX_EXTERNAL,
        ONNX_IR_EXTERNAL,
    ),
    case("2.5-gib-load", "2.5 GiB .onnx: load", OVER_TWO, python("load", "onnx"), python("load", "formats")),
    case("5-gib-to-rten", "5 GiB .onnx to .rten", FIVE, CP, convert("m.rten", *AS_CP)),
    case("5-gib-to-onnxz", "5 GiB .onnx to .onnxz", FIVE, CP, convert("m.onnxz", *AS_CP)),
    case("5-gib-to-external", "5 GiB .onnx to external data", FIVE, CP, convert("m.onnx --external-data", *AS_CP)),
    case("8-gib-to-rten", "8 GiB .onnx to .rten", EIGHT, convert("m.rten", PEAK)),
    case("8-gib-to-onnxz", "8 GiB .onnx to .onnxz", EIGHT, convert("m.onnxz", PEAK)),
    case("8-gib-to-external", "8 GiB .onnx to external data", EIGHT, convert("m.onnx --external-data", PEAK)),
)

# The groups of the plot, from top to bottom.
KINDS_OF_WORK = {
    "Convert 1 GiB of weights": CONVERSIONS,
    "Convert weights of types that RTen lacks": OTHER_TYPES,
    "Compare 1 GiB of weights": COMPARING,
    "Load and save 1 GiB of weights": LOADING_AND_SAVING,
    "Run 1 GiB of weights": SESSIONS,
    "A graph of 40,000 nodes": LARGE_GRAPHS,
    "A graph of 160,000 or 400,000 nodes": LARGEST_GRAPHS,
    "A graph of a hundred nodes": SMALL_GRAPHS,
    "100,000 small tensors": SMALL_TENSORS,
    "A tree ensemble": LISTS,
    "25 million numbers in typed fields": TYPED,
    "A small model, start-up included": SMALL_MODELS,
}
CASES = (*(case for group in KINDS_OF_WORK.values() for case in group), *GROWTH, *ROOFLINE)

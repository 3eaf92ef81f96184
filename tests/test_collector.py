"""Tests of the garbage collector while models are created."""

from __future__ import annotations

import gc
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import formats
from formats.cli.verbs import VERBS
from formats.ir.model import Dimension, TensorShape, TensorType, Type, ValueInfo
from tests.systems import NIGHT, PATIENCE_SECONDS

FORMATS = ["onnx", "onnxz", "rten", "ort", "json", "textproto"]
MODELS = int(os.environ.get("FORMATS_MODELS", "300"))  # 3,000 by night
MAX_GROWTH_MIB = 24
SERVED = MODELS if NIGHT else 18  # for each verb
LETTERS = 9_000_000 // SERVED  # of each name: a cache that keeps one of each model is seen
MAX_KEPT_MIB = 4
Python = Callable[..., subprocess.CompletedProcess[str]]


def value_info(name: str) -> ValueInfo:
    """Return the type of a vector."""
    dims = TensorShape(dim=[Dimension(dim_value=64)])
    return ValueInfo(name=name, type=Type(tensor_type=TensorType(elem_type=1, shape=dims)))


def chain(count: int = 60) -> bytes:
    """Return a model with enough nodes and weights that its garbage is seen."""
    names = ["x", *(f"h{index}" for index in range(count - 1)), "y"]
    nodes = [formats.Node(op_type="Add", input=[names[i], f"w{i % 60}"], output=[names[i + 1]]) for i in range(count)]
    weights = [formats.from_numpy(np.zeros(64, "float32"), f"w{index}") for index in range(60)]
    ends = {"input": [value_info("x")], "output": [value_info("y")]}
    graph = formats.Graph(name="g", node=nodes, initializer=weights, **ends)
    return formats.dumps(formats.Model(ir_version=8, opset_import=[formats.OperatorSetId("", 17)], graph=graph), "onnx")


def test_the_collector_goes_on(python: Python) -> None:
    """Conversions leave the counts of the collector alone, so all generations are searched, as without them."""
    code = (
        "import gc\nfrom formats.collector import collector_paused\n"
        "class Own: pass\n"
        "freed = []\n"
        "import weakref\n"
        "for number in range(200_000):\n"
        "    own = Own(); own.cycle = own\n"
        "    if not number % 1000: weakref.finalize(own, freed.append, number)\n"
        "    if not number % 20:\n"
        "        with collector_paused(): made = [[] for _ in range(20)]\n"
        "own = None\n"
        "print(len(freed) > 150, gc.get_stats()[1]['collections'] > 5)"
    )
    assert ["True", "True"] == python("-c", code).stdout.split()


@pytest.mark.parametrize(
    "size", [pytest.param(100, marks=pytest.mark.outer), pytest.param(3_000, marks=pytest.mark.outer), 50_000]
)
def test_garbage_of_the_caller_is_found(python: Python, size: int) -> None:
    """Objects of the caller in cycles are freed with all that they hold, however much each pause makes."""
    code = (
        "import gc, weakref\nfrom formats.collector import SEARCH_AFTER, collector_paused\n"
        "class Own: pass\n"
        "alive = set()\n"
        "most = 0\n"
        f"for number in range(10 * SEARCH_AFTER // {size}):\n"
        "    own = Own(); own.cycle = own; alive.add(number); weakref.finalize(own, alive.discard, number)\n"
        f"    with collector_paused(): own.made = [[] for _ in range({size})]\n"
        "    most = max(most, len(alive))\n"
        f"print(most * {size} < 3 * SEARCH_AFTER, gc.get_stats()[-1]['collections'] > 0)"
    )
    assert python("-c", code).stdout.split() == ["True", "True"]


@pytest.mark.sample(5)
@pytest.mark.parametrize("source", FORMATS)
def test_conversions_leave_no_cycles(python: Python, tmp_path: Path, source: str) -> None:
    """A conversion leaves no objects that only the collector can free, except in modules that it has just imported."""
    (tmp_path / "given").write_bytes(bytes(formats.dumps(formats.loads(chain()), source)))
    code = (  # in its own process, where no other thread leaves any
        "import gc, formats\nfrom pathlib import Path\n"
        "given = Path('given').read_bytes()\n"
        "gc.disable()\n"
        f"for target in {FORMATS}:\n"
        "    for _ in range(3):\n"
        "        gc.collect()\n"
        f"        formats.dumps(formats.loads(given, format={source!r}), target)\n"
        "    print(target, gc.collect())"
    )
    found = [line.split() for line in python("-c", code).stdout.splitlines()]
    assert [target for target, count in found if int(count) < 100] == FORMATS


@pytest.mark.sample(3)
@pytest.mark.parametrize(
    "use",
    [
        "dumps(load('m.onnx'), 'rten')",
        "dumps(load('m.rten'), 'onnx')",
        "save(load('m.onnx'), 'to.onnxz', overwrite=True)",
        "convert('m.onnx', 'to.rten', overwrite=True)",
        "inspect('m.onnx', nodes=True)",
        "raise_model(load('m.rten'))",
        "verify('m.rten')",
    ],
)
def test_a_large_graph_is_not_searched(python: Python, tmp_path: Path, use: str) -> None:
    """Whatever is done with a large graph, the collector does not search its objects again and again meanwhile."""
    formats.save(formats.loads(chain(5000)), tmp_path / "m.onnx")
    formats.convert(tmp_path / "m.onnx", tmp_path / "m.rten")
    code = (
        "import gc\nfrom formats import convert, dumps, inspect, load, raise_model, save, verify\n"
        f"{use}\n"
        "gc.collect()\n"
        "before = [each['collections'] for each in gc.get_stats()]\n"
        f"{use}\n"
        "print(*(each['collections'] - count for each, count in zip(gc.get_stats(), before)))"
    )
    assert max(map(int, python("-c", code).stdout.split())) < 5


@pytest.mark.sample(5)
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="this system does not tell the memory in use")
@pytest.mark.parametrize(
    "way", ["library", *(pytest.param(way, marks=pytest.mark.outer) for way in ("several", "one job", "two jobs"))]
)
@pytest.mark.parametrize("target", ["rten", "onnx", "onnxz"])
def test_memory_stays_flat(python: Python, tmp_path: Path, way: str, target: str) -> None:
    """A process that converts many models one after the other needs no more memory for the last than for the first."""
    first = "onnx" if target != "onnx" else "rten"
    given = bytes(formats.dumps(formats.loads(chain()), first))
    (tmp_path / "in").mkdir()
    for number in range(MODELS):
        (tmp_path / "in" / f"{number}.{first}").write_bytes(given)
    code = (
        "import gc, sys, formats\nfrom pathlib import Path\n"
        "if __name__ == '__main__':\n"
        f"    paths = sorted(Path('in').iterdir()); given = paths[0].read_bytes()\n"
        f"    pairs = [(p, p.stem + '.{target}') for p in paths]\n"
        "    def used(): return int(open('/proc/self/statm').read().split()[1]) * 4096 >> 20\n"
        "    def work(pairs):\n"
        f"        if {way!r} == 'library':\n"
        f"            for _ in pairs: formats.dumps(formats.loads(given), {target!r})\n"
        f"        elif {way!r} == 'several':\n"
        "            for src, dst in pairs: formats.convert(src, dst)\n"
        "        else:\n"
        f"            formats.convert_many(pairs, processes={1 if way == 'one job' else 2})\n"
        "    work(pairs[:50])\n"
        "    before = used()\n"
        "    work(pairs[50:])\n"
        "    print(used() - before, gc.isenabled())\n"
    )
    (tmp_path / "run.py").write_text(code)
    grown, enabled = python("run.py", timeout=PATIENCE_SECONDS + MODELS).stdout.split()
    print(f"{MODELS:,} models to {target}, {way}: {grown} MiB more after the last than after the first 50")
    assert int(grown) < MAX_GROWTH_MIB
    assert enabled == "True"


# What a service does with each model, for each verb; `m` is a new model, and `n` the file that is written.
CALLS = {
    "convert": "convert(m, n, opset=20); convert(m, 'o.ort', overwrite=True); convert(m, 'o.rten', overwrite=True)",
    "edit": "edit(m, n, dim={'batch': 2}); convert(m, n, dtype='float16', overwrite=True)",
    "extract": "extract(m, n, outputs=['y'])",
    "merge": "merge(m, m, n, prefix='b/')",
    "inspect": "inspect(m, runtime='onnxruntime==1.18')",
    "verify": "verify(m, data=True)",
    "diff": "diff(m, 'first.onnx')",
    "files": "files(m)",
    "cp": "cp(m, n)",
    "mv": "mv(m, n)",
    "rm": "rm(m)",
    "share": "share([m, 'first.onnx'], 'shared', overwrite=True)",
    "pack": "pack([m], 'o.onnxz', overwrite=True)",
    "unpack": "pack([m], 'o.onnxz', overwrite=True); unpack('o.onnxz', 'unpacked', overwrite=True)",
    "repair": "repair(m)",
    "batch": "convert_many([(m, n)], processes=1)",
}
SERVICE = """
import re, shutil, sys, onnx, formats
from onnx import helper
from pathlib import Path

globals().update({name: getattr(formats, name) for name in dir(formats)})
call, models, letters = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])

def used(): return int(re.search(r'VmRSS:\\s*(\\d+)', Path('/proc/self/status').read_text())[1]) >> 10

def make(number, path):
    text = f'{number}' + 'x' * letters
    nodes = [helper.make_node('Relu', ['x'], [text], name=text), helper.make_node('Add', ['x', 'w'], ['y'])]
    nodes += [helper.make_node('Gelu' + text, [text], ['z'], domain=text)]
    weight = helper.make_tensor('w', 1, [300], bytes(1200), raw=True)
    x, y, z = (helper.make_tensor_value_info(name, 1, ['batch', text, f'{text}*batch', 300]) for name in 'xyz')
    graph = helper.make_graph(nodes, text, [x], [y, z], [weight])
    opsets = [helper.make_opsetid('', 17), helper.make_opsetid(text, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    helper.set_model_props(model, {text: text})
    onnx.save(model, path)

make(0, 'first.onnx')
refused = 0
for number in range(models):
    folder = Path(f'f{number}'); folder.mkdir()
    m, n = folder / 'm.onnx', folder / 'n.onnx'
    make(number, m)
    for each in call.split('; '):
        try: exec(each)
        except FormatError: refused += 1
    shutil.rmtree(folder)
    if number == models // 3: before = used()
print(used() - before, refused)
"""


def test_every_verb_is_called() -> None:
    """A new verb is one of the service, too."""
    assert {verb.name for verb in VERBS} - set(CALLS) == {"completion"}


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="this system does not tell the memory in use")
@pytest.mark.parametrize(
    "verb", [pytest.param(verb, marks=[pytest.mark.outer] * (verb != "inspect")) for verb in CALLS]
)
def test_a_service_keeps_nothing_of_models(python: Python, tmp_path: Path, verb: str) -> None:
    """A process that gets many models, each with other and long names, needs no more memory for the last ones."""
    (tmp_path / "run.py").write_text(SERVICE)
    done = python("run.py", CALLS[verb], str(SERVED), str(LETTERS), timeout=PATIENCE_SECONDS + SERVED)
    assert not done.stderr
    grown, refused = map(int, done.stdout.split())
    print(f"{SERVED:,} models for {verb}: {grown} MiB more after the last than after a third; {refused:,} refused")
    assert grown < MAX_KEPT_MIB


@pytest.mark.parametrize("enabled", [True, False])
def test_what_others_do_with_the_collector_stays(python: Python, enabled: bool) -> None:
    """A collector that is switched off stays off, and objects that the caller froze stay frozen."""
    code = (  # in its own process, where no other thread creates objects
        "import gc\nfrom formats.collector import collector_paused\n"
        f"gc.collect(); gc.freeze(); {enabled} or gc.disable()\n"
        "count = gc.get_freeze_count()\n"
        "with collector_paused(): pass\n"
        "print(gc.isenabled(), gc.get_freeze_count() - count)"
    )
    assert [str(enabled), "0"] == python("-c", code).stdout.split()


@pytest.mark.parametrize("resting", [True, False])
def test_nobody_looks_for_cycles_at_the_end(python: Python, resting: bool) -> None:
    """A command ends without a search for garbage; other functions for the exit are still called."""
    code = (
        "import atexit\nfrom formats.collector import rest_in_command\n"
        "class Found:\n    def __del__(self, say=print): say('found')\n"
        "atexit.register(print, 'done')\n"
        f"if {resting}: rest_in_command()\n"
        "cycle = [Found()]; cycle.append(cycle); del cycle"
    )
    assert (["done"] if resting else ["done", "found"]) == python("-c", code).stdout.split()


@pytest.mark.parametrize("verb", ["inspect", "convert"])
def test_a_command_searches_for_no_cycles(python: Python, tmp_path: Path, verb: str) -> None:
    """A command on a model of usual size ends before a first search; its imports cause none either."""
    (tmp_path / "m.onnx").write_bytes(chain())
    code = (
        "import atexit, gc, sys, formats.cli\n"
        f"sys.argv = ['formats', {verb!r}, 'm.onnx', *(['m.onnxz'] if {verb!r} == 'convert' else [])]\n"
        "before = [each['collections'] for each in gc.get_stats()]\n"
        "atexit.register(lambda: print([each['collections'] for each in gc.get_stats()] == before))\n"
        "formats.cli.formats()"
    )
    assert python("-c", code).stdout.splitlines()[-1] == "True"


@pytest.mark.skipif(not hasattr(gc, "freeze"), reason="this Python has another collector")
def test_a_command_still_finds_cycles(python: Python) -> None:
    """A command that makes very many objects in cycles frees them, only later."""
    code = (
        "import weakref\nfrom formats.collector import SEARCH_AFTER, rest_in_command\n"
        "class Own: pass\n"
        "rest_in_command()\n"
        "own = Own(); own.cycle = own; gone = weakref.ref(own); del own\n"
        "made = [[] for _ in range(SEARCH_AFTER + 1000)]\n"
        "print(gone() is None)"
    )
    assert python("-c", code).stdout.split() == ["True"]

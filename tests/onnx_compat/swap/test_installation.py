"""`install()` puts our classes and functions into `onnx`, whenever it was imported, and undoes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import formats
import formats.onnxpb
from tests.docs.code_blocks import ROOT
from tests.systems import PATIENCE_SECONDS

INSTALLED = {
    "before": "import formats.onnxpb\nformats.onnxpb.install()\n"
    "import onnx\nfrom onnx import TensorProto, helper, load",
    "after": "import onnx\nfrom onnx import TensorProto, helper, load\nimport formats.onnxpb; formats.onnxpb.install()",
    "twice": "import formats.onnxpb\nwith formats.onnxpb.install(): pass\nformats.onnxpb.install()\nwith "
    "formats.onnxpb.install(): pass\nimport onnx\nfrom onnx import TensorProto, helper, load",
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("order", INSTALLED)
def test_install_before_or_after(order: str) -> None:
    """Programs that import `onnx` before or after `install()` get our classes; `uninstall()` gives them back theirs."""
    text = f"""
{INSTALLED[order]}
ours = lambda: {{
    each.__module__.split(".")[0] for each in (onnx.ModelProto, TensorProto, load, onnx.save, helper.NodeProto)
}}
assert ours() == {{"formats"}}, ours()
import onnx.reference, onnx.version_converter
assert type(onnx.reference.ReferenceEvaluator(helper.make_node("Neg", ["x"], ["y"])).proto_) is formats.onnxpb.NodeProto
assert onnx.reference.reference_evaluator.ModelProto is formats.onnxpb.ModelProto
formats.onnxpb.uninstall()
assert ours() == {{"onnx"}}, ours()
assert onnx.reference.reference_evaluator.ModelProto is onnx.ModelProto is not formats.onnxpb.ModelProto
"""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=PATIENCE_SECONDS)


@pytest.mark.parametrize("times", [1, 2])
def test_native_classes_of_protobuf(times: int) -> None:
    """`isinstance` with protobuf's native classes accepts ours, too, after `install()`, and no longer after the end."""
    text = f"""
import onnx
from google._upb import _message as native
from google.protobuf.unknown_fields import UnknownFieldSet
import formats.onnxpb
theirs, before = onnx.ModelProto(), (native.Message, UnknownFieldSet)
for _ in range({times}):
    formats.onnxpb.install()
for model in (onnx.ModelProto(), theirs):
    assert isinstance(model, native.Message) and issubclass(type(model), native.Message)
    assert isinstance(model.graph.node, native.RepeatedCompositeContainer)
    assert isinstance(onnx.NodeProto().input, native.RepeatedScalarContainer)
    assert isinstance(onnx.TensorProto().float_data, native.RepeatedScalarContainer)
    assert not isinstance(model.graph.node, (native.RepeatedScalarContainer, native.Message))
    assert len(native.UnknownFieldSet(model)) == len(UnknownFieldSet(model)) == 0
formats.onnxpb.uninstall()
from google.protobuf.unknown_fields import UnknownFieldSet
assert (native.Message, UnknownFieldSet) == before
assert type(theirs) is onnx.ModelProto and isinstance(theirs, native.Message)
"""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=PATIENCE_SECONDS)


@pytest.mark.outer
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
@pytest.mark.parametrize("kind", ["multiprocessing", "concurrent.futures"])
def test_workers(kind: str, method: str, tmp_path: Path) -> None:
    """Workers that get `install` as their initializer have our classes in `onnx`, and messages go there and back."""
    (tmp_path / "work.py").write_text(
        "def name(model):\n"
        "    import onnx\n"
        "    onnx.checker.check_model(model)\n"
        "    model.graph.name += '!'\n"
        "    return type(model) is onnx.ModelProto, onnx.load.__module__, model\n"
    )
    (tmp_path / "main.py").write_text(f"""
import concurrent.futures, multiprocessing, sys
import formats.onnxpb, work
from formats.onnxpb import helper
if __name__ == "__main__":
    model = helper.make_model(helper.make_graph([], "g", [], []))
    context = multiprocessing.get_context({method!r})
    if {kind == "multiprocessing"}:
        with context.Pool(1, initializer=formats.onnxpb.install) as pool:
            is_ours, module, back = pool.apply(work.name, [model])
    else:
        workers = concurrent.futures.ProcessPoolExecutor(1, context, initializer=formats.onnxpb.install)
        with workers:
            is_ours, module, back = workers.submit(work.name, model).result()
    assert is_ours and module.startswith("formats"), module
    assert type(back) is formats.onnxpb.ModelProto and back.graph.name == "g!"
""")
    subprocess.run([sys.executable, "main.py"], check=True, timeout=PATIENCE_SECONDS, cwd=tmp_path)


def test_isinstance_with_the_classes_of_onnx() -> None:
    """A message is an instance of the class of `onnx` with its name once `onnx` is imported, and of no other."""
    text = """
import functools, sys
from formats.onnxpb import GraphProto, ModelProto, TensorShapeProto, TypeProto
model, dim = ModelProto(), TensorShapeProto.Dimension()
assert model.__class__ is type(model) is ModelProto and "onnx" not in sys.modules
import onnx
from formats.onnx_compat.protos.classes import CLASSES
for name, cls in CLASSES.items():
    message = cls()
    assert type(message) is cls and isinstance(message, cls)
    kinds = {each.__name__ for each in vars(onnx).values() if isinstance(each, type) and isinstance(message, each)}
    assert kinds == (set() if "." in name else {name}), (name, kinds)
assert isinstance(dim, onnx.TensorShapeProto.Dimension) and isinstance(TypeProto.Tensor(), onnx.TypeProto.Tensor)
assert not isinstance(onnx.ModelProto(), GraphProto) and not isinstance(model, GraphProto)

@functools.singledispatch
def kind(value):
    return "other"

kind.register(onnx.ModelProto, lambda value: "model")
assert [kind(model), kind(onnx.ModelProto()), kind(dim)] == ["model", "model", "other"]
del onnx.TensorProto  # as a release of onnx that lacks a message
assert CLASSES["TensorProto"]().__class__ is CLASSES["TensorProto"]
import formats.onnxpb
with formats.onnxpb.install():
    assert onnx.ModelProto is ModelProto and model.__class__ is ModelProto and isinstance(model, onnx.ModelProto)
"""
    subprocess.run([sys.executable, "-c", text], check=True, timeout=PATIENCE_SECONDS)


WORK = """
def start():  # what `install` returns cannot be pickled
    import formats.onnxpb
    formats.onnxpb.install()

def name(model):
    import onnx
    onnx.checker.check_model(model)
    model.graph.name += "!"
    return type(model).__module__, type(model) is onnx.ModelProto, isinstance(model, onnx.ModelProto), model
"""
OTHERS = {  # packages, each with how they do `work` for a message, with the initializer `start` or without one
    "loky": "loky.get_reusable_executor(2, initializer=start).submit(work.name, model).result()",
    "joblib": "joblib.Parallel(2, backend='loky', initializer=start)([joblib.delayed(work.name)(model)])[0]",
    "distributed": "on_dask(start)",
}


@pytest.mark.outer
@pytest.mark.parametrize("is_installed", [True, False])
@pytest.mark.parametrize("package", OTHERS)
def test_workers_of_other_packages(package: str, is_installed: bool, tmp_path: Path) -> None:
    """Messages go to workers of other packages and back, with `install` there, and without it nothing breaks."""
    pytest.importorskip(package)
    (tmp_path / "work.py").write_text(WORK)
    (tmp_path / "main.py").write_text(f"""
import {package}, work, formats.onnxpb
from formats.onnxpb import helper

def on_dask(start):
    with distributed.Client(n_workers=1, threads_per_worker=1, dashboard_address=None) as client:
        if start:
            client.run(work.start)
        return client.submit(work.name, model).result()

if __name__ == "__main__":
    model = helper.make_model(helper.make_graph([], "g", [], []))
    start = {"formats.onnxpb.install" if is_installed else "None"}
    module, is_class, is_instance, back = {OTHERS[package]}
    assert module.startswith("formats.") and is_instance and is_class is {is_installed}
    assert type(back) is formats.onnxpb.ModelProto and back.graph.name == "g!"
""")
    subprocess.run([sys.executable, "main.py"], check=True, timeout=PATIENCE_SECONDS, cwd=tmp_path)


@pytest.mark.outer
def test_a_function_that_holds_a_message_goes_to_another_process() -> None:
    """A message in a function that cloudpickle pickles, as Ray does, is one of ours in the process that calls it."""
    cloudpickle = pytest.importorskip("cloudpickle")
    model = formats.onnxpb.ModelProto(producer_name="me")
    data = cloudpickle.dumps(lambda: (type(model).__module__.partition(".")[0], model.producer_name))
    command = [sys.executable, "-c", "import pickle, sys; print(*pickle.load(sys.stdin.buffer)())"]
    run = subprocess.run(command, input=data, capture_output=True, check=True, timeout=PATIENCE_SECONDS)
    assert run.stdout.split() == [b"formats", b"me"]


@pytest.mark.outer
def test_subinterpreters(tmp_path: Path) -> None:
    """A subinterpreter reads, converts and saves a model, also with a GIL of its own, for which numpy is not made."""
    interpreters = pytest.importorskip("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    source, target = str(ROOT / "examples" / "digits.onnx"), str(tmp_path / "digits.onnxz")
    program = f"""
import formats, formats.onnxpb
formats.convert({source!r}, {target!r})
model = formats.onnxpb.load({target!r})
formats.save(model, {target!r}, overwrite=True)
assert len(formats.load({target!r}).graph.initializer) == 6
"""
    assert not interpreters.run_string(interpreters.create(), program)
    assert len(formats.load(target).graph.node) == len(formats.load(source).graph.node)  # type: ignore[union-attr]

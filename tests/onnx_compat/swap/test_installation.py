"""`install()` puts our classes and functions into `onnx`, whenever it was imported, and undoes it."""

from __future__ import annotations

import subprocess
import sys

import pytest

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

"""A program over `onnx` that reads attributes of every kind, and refuses what does not fit."""

import formats.onnxpb as onnx
from formats.onnxpb import AttributeProto
from formats.onnxpb.checker import ValidationError

node = onnx.helper.make_node("Conv", ["x", "w"], ["y"], kernel_shape=[3, 3], group=1, auto_pad="SAME_UPPER")
for attribute in node.attribute:
    kind: AttributeProto.AttributeType = attribute.type
    assert kind in (AttributeProto.INT, AttributeProto.INTS, AttributeProto.STRING)
values = {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}
assert values["group"] == 1
assert list(values["kernel_shape"]) == [3, 3]
copied = onnx.NodeProto()
copied.CopyFrom(node)
copied.attribute.add(name="alpha", f=0.5, type=AttributeProto.FLOAT)
del copied.input[1:]
try:
    onnx.checker.check_node(copied)
except ValidationError as error:
    assert "Conv" in str(error)
else:
    raise AssertionError("the checker accepts a Conv without weights")
assert onnx.NodeProto.FromString(node.SerializeToString()) == node

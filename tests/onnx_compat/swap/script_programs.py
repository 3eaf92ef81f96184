"""Programs over `onnx` like the scripts that people publish; `typical_programs.py` has others."""
# ruff: noqa: D103 - the names say what a program does, and each program has its own imports

from __future__ import annotations

from pathlib import Path
from typing import Any


def chain() -> Any:
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(1)
    names = ("w", "s", "b", "m", "v")
    dims = ((2, 2, 1, 1), (2,), (2,), (2,), (2,))
    weights = [
        numpy_helper.from_array(rng.random(dim, dtype=np.float32) + 0.5, n) for n, dim in zip(names, dims, strict=True)
    ]
    nodes = [
        helper.make_node("Pad", ["in:0", "pads"], ["p"], name="Pad_0", mode="constant"),
        helper.make_node("Conv", ["p", "w"], ["c"], name="Conv_1", kernel_shape=[1, 1], strides=[1, 1]),
        helper.make_node("BatchNormalization", ["c", "s", "b", "m", "v"], ["n"], name="BN_2", epsilon=1e-3),
        helper.make_node("Clip", ["n", "low", "high"], ["out:0"], name="Clip_3"),
    ]
    weights.append(numpy_helper.from_array(np.zeros(8, np.int64), "pads"))
    weights += [numpy_helper.from_array(np.array(value, np.float32), n) for n, value in (("low", 0), ("high", 6))]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 2, 4, 4]) for n in ("in:0", "out:0")]
    graph = helper.make_graph(nodes, "chain", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def cleans_up_names_by_index(folder: Path) -> Any:
    model = chain()
    for i in range(len(model.graph.node)):
        for j in range(len(model.graph.node[i].input)):
            model.graph.node[i].input[j] = model.graph.node[i].input[j].split(":")[0]
        for j in range(len(model.graph.node[i].output)):
            model.graph.node[i].output[j] = model.graph.node[i].output[j].split(":")[0]
    for i in range(len(model.graph.input)):
        model.graph.input[i].name = model.graph.input[i].name.split(":")[0]
    for i in range(len(model.graph.output)):
        model.graph.output[i].name = model.graph.output[i].name.split(":")[0]
    return model


def removes_a_node_while_it_counts(folder: Path) -> Any:
    import onnx

    model = chain()
    model.graph.node[1].input[0] = "in:0"
    removed = 0
    for index in range(len(model.graph.node)):
        node = model.graph.node[index - removed]
        if node.name == "Pad_0":
            model.graph.node.remove(node)
            removed += 1
    onnx.checker.check_model(model)
    return model, removed, node.name


def folds_a_normalisation(folder: Path) -> Any:
    import numpy as np
    from onnx import helper, numpy_helper

    model = chain()
    weights = {each.name: each for each in model.graph.initializer}
    by_output = {node.output[0]: node for node in model.graph.node}
    for norm in [node for node in model.graph.node if node.op_type == "BatchNormalization"]:
        conv = by_output[norm.input[0]]
        scale, shift, mean, var = (numpy_helper.to_array(weights[name]) for name in norm.input[1:])
        epsilon = next((a.f for a in norm.attribute if a.name == "epsilon"), 1e-5)
        factor = scale / np.sqrt(var + np.float32(epsilon))
        kernel = numpy_helper.to_array(weights[conv.input[1]]) * factor.reshape(-1, 1, 1, 1)
        weights[conv.input[1]].CopyFrom(numpy_helper.from_array(kernel, conv.input[1]))
        model.graph.initializer.append(numpy_helper.from_array(shift - mean * factor, "folded"))
        conv.input.append("folded")
        conv.output[0] = norm.output[0]
        for name in norm.input[1:]:
            model.graph.initializer.remove(weights[name])
        model.graph.node.remove(norm)
    return model, helper.printable_graph(model.graph)


def changes_a_mode(folder: Path) -> Any:
    from onnx import helper

    model = chain()
    for node in model.graph.node:
        for index, attribute in enumerate(node.attribute):
            if attribute.name == "mode":
                attribute.s = b"reflect"
            elif attribute.name == "strides":
                del node.attribute[index]
                node.attribute.insert(index, helper.make_attribute("strides", [2, 2]))
    return model


def goes_through_json(folder: Path) -> Any:
    import json

    import onnx
    from google.protobuf.json_format import MessageToDict, MessageToJson, Parse, ParseDict

    model = chain()
    text = MessageToJson(model)
    named = MessageToDict(model, preserving_proto_field_name=True)
    return text, json.dumps(named), Parse(text, onnx.ModelProto()), ParseDict(named, onnx.ModelProto())


def goes_through_text(folder: Path) -> Any:
    import onnx
    from google.protobuf import text_format

    model = chain()
    text = text_format.MessageToString(model, as_one_line=True)
    return text, text_format.Parse(text, onnx.ModelProto()), text_format.Merge("ir_version: 3", onnx.ModelProto())


def sorts_the_nodes(folder: Path) -> Any:
    import copy

    model = chain()
    mixed = [copy.deepcopy(node) for node in reversed(model.graph.node)]
    known = {each.name for each in model.graph.initializer} | {each.name for each in model.graph.input}
    done: list[Any] = []
    while mixed:
        ready = [node for node in mixed if all(name in known or not name for name in node.input)]
        done += ready
        mixed = [node for node in mixed if node not in ready]
        known.update(name for node in ready for name in node.output)
    while len(model.graph.node):
        model.graph.node.pop()
    model.graph.node.extend(done)
    return model


def makes_every_value_an_output(folder: Path) -> Any:
    import onnx

    model = onnx.shape_inference.infer_shapes(chain())
    known = {each.name: each for each in model.graph.value_info}
    for node in model.graph.node:
        for name in node.output:
            if name in known and name not in [each.name for each in model.graph.output]:
                model.graph.output.append(known[name])
    return model, [(each.name, [d.dim_value for d in each.type.tensor_type.shape.dim]) for each in model.graph.output]


def makes_weights_inputs(folder: Path) -> Any:
    from onnx import helper

    model = chain()
    names = {each.name for each in model.graph.input}
    for each in model.graph.initializer:
        if each.name not in names:
            model.graph.input.append(helper.make_tensor_value_info(each.name, each.data_type, each.dims))
    return model


def halves_the_weights(folder: Path) -> Any:
    import numpy as np
    from onnx import TensorProto, numpy_helper

    model = chain()
    for index, each in enumerate(model.graph.initializer):
        if each.data_type == TensorProto.FLOAT:
            half = numpy_helper.to_array(each).astype(np.float16)
            model.graph.initializer[index].CopyFrom(numpy_helper.from_array(half, each.name))
    for end in (*model.graph.input, *model.graph.output):
        end.type.tensor_type.elem_type = TensorProto.FLOAT16
    return model


def reads_weights_by_their_fields(folder: Path) -> Any:
    import numpy as np
    from onnx import TensorProto, helper

    tensors = [
        helper.make_tensor("f", TensorProto.FLOAT, [3], [0.1, float("inf"), -0.0]),
        helper.make_tensor("i", TensorProto.INT64, [2], [1 << 40, -1]),
        helper.make_tensor("h", TensorProto.FLOAT16, [2], np.array([1, 2], np.float16)),
        helper.make_tensor("s", TensorProto.STRING, [2], [b"a", "\u00e4".encode()]),
        helper.make_tensor("r", TensorProto.UINT8, [2], b"\x01\x02", raw=True),
    ]
    fields = ("float_data", "int64_data", "int32_data", "string_data", "raw_data")
    found = [[list(getattr(tensor, name)) for name in fields] for tensor in tensors]
    return found, [tensor.HasField("raw_data") for tensor in tensors], str(tensors[0].float_data), tensors


def builds_a_loop(folder: Path) -> Any:
    import numpy as np
    from onnx import TensorProto, checker, helper, numpy_helper
    from onnx.reference import ReferenceEvaluator

    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), helper.make_node("Add", ["x", "one"], ["more"])],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, []),
            helper.make_tensor_value_info("go", TensorProto.BOOL, []),
            helper.make_tensor_value_info("x", TensorProto.FLOAT, [1]),
        ],
        [
            helper.make_tensor_value_info("go_on", TensorProto.BOOL, []),
            helper.make_tensor_value_info("more", TensorProto.FLOAT, [1]),
        ],
        [numpy_helper.from_array(np.ones(1, np.float32), "one")],
    )
    graph = helper.make_graph(
        [helper.make_node("Loop", ["n", "", "start"], ["end"], body=body)],
        "loop",
        [helper.make_tensor_value_info("start", TensorProto.FLOAT, [1])],
        [helper.make_tensor_value_info("end", TensorProto.FLOAT, [1])],
        [numpy_helper.from_array(np.array(4, np.int64), "n")],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    checker.check_model(model)
    return model, ReferenceEvaluator(model).run(None, {"start": np.zeros(1, np.float32)})


def makes_a_function(folder: Path) -> Any:
    from onnx import AttributeProto, checker, helper, inliner

    alpha = AttributeProto(name="alpha", type=AttributeProto.FLOAT, ref_attr_name="slope")
    leaky = helper.make_node("LeakyRelu", ["x"], ["y"])
    leaky.attribute.append(alpha)
    function = helper.make_function("own", "Leaky", ["x"], ["y"], [leaky], [helper.make_opsetid("", 17)], ["slope"])
    model = chain()
    model.functions.append(function)
    model.opset_import.add(domain="own", version=1)
    model.graph.node.add(op_type="Leaky", domain="own", input=["out:0"], output=["z"]).attribute.append(
        helper.make_attribute("slope", 0.5)
    )
    checker.check_model(model)
    return model, inliner.inline_local_functions(model), repr(function)[:60]


def counts_operators(folder: Path) -> Any:
    from collections import Counter

    model = chain()
    counts = Counter(node.op_type for node in model.graph.node)
    sizes = sum(len(each.raw_data) for each in model.graph.initializer)
    return dict(counts.most_common()), sizes, model.ByteSize(), len(model.SerializeToString())


def walks_all_fields(folder: Path) -> Any:
    def walked(message: Any) -> Any:
        found = {}
        for field, value in message.ListFields():
            repeated = not isinstance(value, (str, bytes)) and hasattr(value, "__len__")
            values = list(value) if repeated else [value]
            found[field.name] = [walked(each) if hasattr(each, "ListFields") else each for each in values]
        return found

    return walked(chain())


def handles_attributes_by_their_type(folder: Path) -> Any:
    from onnx import AttributeProto, helper

    node = helper.make_node("A", ["x"], ["y"], i=1, f=0.5, s="t", ints=[1, 2], floats=[1.5], strings=["a", "b"], e=[0])
    found = []
    for each in node.attribute:
        kind = AttributeProto.AttributeType.Name(each.type)
        found.append((each.name, kind, helper.get_attribute_value(each)))
    return found, helper.printable_node(node)


def uses_sets_and_dictionaries(folder: Path) -> Any:
    model = chain()
    try:
        return {model.graph.node[0]}
    except TypeError as error:
        nodes = list(model.graph.node)  # which keeps them: only then is a node the same object again
        names = {id(node): node.name for node in nodes}
        return (
            str(error).split(":")[0],
            [names[id(node)] for node in model.graph.node],
            model.graph.node[0] in list(model.graph.node),
        )


def slices_and_reverses(folder: Path) -> Any:
    model = chain()
    last = model.graph.node[-1]
    some = model.graph.node[1:3]
    del model.graph.node[1:3]
    model.graph.node.extend(some)
    model.graph.node.reverse()
    model.graph.initializer.sort(key=lambda each: each.name, reverse=True)
    return model, last.name, [each.name for each in some], isinstance(some, list), list(model.graph.node).index(last)


def merges_messages(folder: Path) -> Any:
    import onnx

    model, other = chain(), onnx.ModelProto(producer_name="other", doc_string="text")
    other.graph.doc_string = "graph"
    other.metadata_props.add(key="a", value="b")
    model.MergeFrom(other)
    model.metadata_props.MergeFrom(other.metadata_props)
    copy = onnx.ModelProto()
    copy.ParseFromString(model.SerializeToString())
    copy.ClearField("doc_string")
    return model, copy, model == copy, copy.HasField("doc_string"), copy.graph.HasField("doc_string")


def makes_an_if_of_two_models(folder: Path) -> Any:
    import onnx
    from onnx import TensorProto, helper

    first, second = chain(), chain()
    for model, name in ((first, "a"), (second, "b")):
        for node in model.graph.node:
            node.name = f"{name}/{node.name}"
            node.output[:] = [f"{name}/{each}" for each in node.output]
            node.input[:] = [f"{name}/{each}" if each in "pcn" else each for each in node.input]
        model.graph.output[0].name = f"{name}/out:0"
        del model.graph.input[:]
    node = helper.make_node("If", ["which"], ["y"], then_branch=first.graph, else_branch=second.graph)
    ends = [
        helper.make_tensor_value_info("which", TensorProto.BOOL, []),
        helper.make_tensor_value_info("in:0", TensorProto.FLOAT, [1, 2, 4, 4]),
    ]
    graph = helper.make_graph([node], "if", ends, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 2, 4, 4])])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    onnx.checker.check_model(model)
    onnx.save(model, folder / "if.onnx")
    return model, onnx.load(folder / "if.onnx"), onnx.shape_inference.infer_shapes(model)


def looks_at_versions(folder: Path) -> Any:
    import onnx
    from onnx import defs, helper

    model = chain()
    versions = {each.domain or "ai.onnx": each.version for each in model.opset_import}
    schema = defs.get_schema("Conv", versions["ai.onnx"], "")
    least = helper.find_min_ir_version_for(model.opset_import)
    return versions, sorted(schema.attributes), least, onnx.IR_VERSION >= model.ir_version, onnx.__version__


def catches_errors_of_protobuf(folder: Path) -> Any:
    import onnx
    from google.protobuf.message import DecodeError

    found = []
    for wrong in (b"\x0a\xff", b"no model", b"\x07"):
        try:
            onnx.load_model_from_string(wrong)
        except DecodeError:
            found.append("decode")
    for change in ({"ir_version": "a"}, {"nothing": 1}, {"graph": 3}):
        try:
            onnx.ModelProto(**change)
        except (TypeError, ValueError, AttributeError) as error:
            found.append(type(error).__name__)
    return found


def describes_types(folder: Path) -> Any:
    import onnx

    model = chain()
    found = []
    for each in (*model.graph.input, *model.graph.output):
        kind = each.type.WhichOneof("value")
        tensor = getattr(each.type, kind)
        dims = [getattr(dim, dim.WhichOneof("value")) if dim.WhichOneof("value") else None for dim in tensor.shape.dim]
        name = onnx.TensorProto.DataType.Name(tensor.elem_type)
        found.append((each.name, kind, name, dims, str(onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type))))
    return found, str(model.graph.input[0])

"""Typical programs over `onnx`: each is a function of a folder, and what it returns is what matters to its user.

The tests run them with `onnx`, with each `onnx` in their imports replaced by `formats.onnxpb`, and as they are after
`formats.onnxpb.install()`. So every import here stands alone on its line.
"""
# ruff: noqa: D103 - the names say what a program does, and each program has its own imports

from __future__ import annotations

from pathlib import Path
from typing import Any


def small_model() -> Any:
    import numpy as np
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], name="conv", pads=[1, 1, 1, 1], kernel_shape=[3, 3]),
        helper.make_node("Relu", ["c"], ["r"], name="relu"),
        helper.make_node("Identity", ["r"], ["i"], name="same"),
        helper.make_node("GlobalAveragePool", ["i"], ["y"], name="pool"),
    ]
    graph = helper.make_graph(
        nodes,
        "small",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["batch", 3, 8, 8])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["batch", 4, 1, 1])],
        [numpy_helper.from_array(rng.standard_normal((4, 3, 3, 3)).astype(np.float32), "w")],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8, producer_name="tests")


def builds_and_checks(folder: Path) -> Any:
    import onnx

    model = small_model()
    onnx.checker.check_model(model, full_check=True)
    return model, onnx.helper.printable_graph(model.graph)


def saves_and_loads(folder: Path) -> Any:
    import onnx

    path = folder / "m.onnx"
    onnx.save(small_model(), path)
    return path.read_bytes(), onnx.load(str(path)), onnx.load_model(path).graph.node[0].name


def loads_from_open_files_and_strings(folder: Path) -> Any:
    import io

    import onnx

    data = small_model().SerializeToString()
    out = io.BytesIO()
    onnx.save_model(onnx.load_from_string(data), out)
    return out.getvalue(), onnx.load(io.BytesIO(data)), onnx.load_model_from_string(data)


def infers_shapes(folder: Path) -> Any:
    from onnx import shape_inference

    found = shape_inference.infer_shapes(small_model(), check_type=True, strict_mode=True, data_prop=True)
    return found, {info.name: [d.dim_value for d in info.type.tensor_type.shape.dim] for info in found.graph.value_info}


def infers_shapes_of_a_file(folder: Path) -> Any:
    import onnx
    import onnx.shape_inference

    onnx.save(small_model(), folder / "a.onnx")
    onnx.shape_inference.infer_shapes_path(str(folder / "a.onnx"), str(folder / "b.onnx"))
    return onnx.load(folder / "b.onnx")


def converts_the_opset(folder: Path) -> Any:
    from onnx import version_converter

    return version_converter.convert_version(small_model(), 18)


def merges_models(folder: Path) -> Any:
    import onnx
    from onnx import compose

    one = compose.add_prefix(small_model(), "one/")
    two = compose.add_prefix(small_model(), "two/")
    del two.graph.input[0].type.tensor_type.shape.dim[:]
    merged = compose.merge_models(one, two, io_map=[("one/y", "two/x")])
    return merged, onnx.compose.expand_out_dim(small_model(), 0)


def extracts_a_part(folder: Path) -> Any:
    import onnx

    model = onnx.shape_inference.infer_shapes(small_model())
    onnx.save(model, folder / "m.onnx")
    onnx.utils.extract_model(str(folder / "m.onnx"), str(folder / "part.onnx"), ["x"], ["r"])
    return onnx.load(folder / "part.onnx"), onnx.utils.Extractor(model).extract_model(["c"], ["y"])


def evaluates_by_reference(folder: Path) -> Any:
    import numpy as np
    from onnx.reference import ReferenceEvaluator

    x = np.linspace(-1, 1, 2 * 3 * 8 * 8, dtype=np.float32).reshape(2, 3, 8, 8)
    evaluator = ReferenceEvaluator(small_model())
    return evaluator.input_names, evaluator.run(None, {"x": x})


def evaluates_an_operator_of_its_own(folder: Path) -> Any:
    import numpy as np
    from onnx import TensorProto, helper
    from onnx.reference import ReferenceEvaluator
    from onnx.reference.op_run import OpRun

    class Twice(OpRun):
        op_domain = "own"

        def _run(self, x: Any, factor: Any = None) -> Any:
            return (x * factor,)

    node = helper.make_node("Twice", ["x"], ["y"], domain="own", factor=2.0)
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [2]) for name in "xy"]
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("own", 1)]
    model = helper.make_model(helper.make_graph([node], "g", values[:1], values[1:]), opset_imports=imports)
    return ReferenceEvaluator(model, new_ops=[Twice]).run(None, {"x": np.ones(2, np.float32)})


def writes_external_data(folder: Path) -> Any:
    import onnx

    path = folder / "m.onnx"
    onnx.save(small_model(), path, save_as_external_data=True, location="m.data", size_threshold=0)
    bare = onnx.load(path, load_external_data=False)
    places = [(each.key, each.value) for each in bare.graph.initializer[0].external_data]
    onnx.load_external_data_for_model(bare, str(folder))
    return (folder / "m.data").read_bytes(), places, bare, onnx.load(path)


def marks_external_data(folder: Path) -> Any:
    import onnx
    from onnx import external_data_helper

    model = small_model()
    external_data_helper.convert_model_to_external_data(
        model, all_tensors_to_one_file=True, location="w.bin", size_threshold=0
    )
    marked = [external_data_helper.uses_external_data(tensor) for tensor in model.graph.initializer]
    onnx.save_model(model, folder / "m.onnx")
    found = onnx.load(folder / "m.onnx", load_external_data=False)
    external_data_helper.load_external_data_for_model(found, str(folder))
    return marked, found, [path.name for path in sorted(folder.iterdir())]


def finds_tensors_by_private_functions(folder: Path) -> Any:
    from onnx.external_data_helper import _get_all_tensors, _get_initializer_tensors

    return [[tensor.name for tensor in get(small_model())] for get in (_get_all_tensors, _get_initializer_tensors)]


def round_trips_arrays(folder: Path) -> Any:
    import numpy as np
    from onnx import numpy_helper

    arrays = [np.arange(6, dtype=t).reshape(2, 3) for t in ("f2", "f4", "f8", "i1", "i8", "u2", "c8")]
    arrays += [np.array(["a", "ü"], object), np.array(2.5), np.zeros((0, 3))]
    return [numpy_helper.to_array(numpy_helper.from_array(array, "t")) for array in arrays]


def lists_attributes(folder: Path) -> Any:
    from onnx import AttributeProto, helper

    found: Any = []
    for node in small_model().graph.node:
        for attribute in node.attribute:
            kind = AttributeProto.AttributeType.Name(attribute.type)
            found.append((node.op_type, attribute.name, kind, helper.get_attribute_value(attribute)))
    return found


def sets_metadata(folder: Path) -> Any:
    from onnx import helper

    model = small_model()
    helper.set_model_props(model, {"author": "me", "task": "test"})
    entry = model.metadata_props.add()
    entry.key, entry.value = "more", "text"
    model.graph.metadata_props.add(key="k", value="v")
    return model, {each.key: each.value for each in model.metadata_props}


def reads_operators(folder: Path) -> Any:
    from onnx import defs

    schema = defs.get_schema("Gelu", 20, "")
    default = defs.get_schema("Conv", 11).attributes["auto_pad"].default_value
    inputs = [(each.name, each.option == defs.OpSchema.FormalParameterOption.Single) for each in schema.inputs]
    return schema.since_version, inputs, [node.op_type for node in schema.function_body.node], default.s


def registers_an_operator(folder: Path) -> Any:
    from onnx import checker, defs, helper

    real = defs.OpSchema.FormalParameter
    schema = defs.OpSchema("Own", "own.domain", 1, inputs=[real("x", "T")], outputs=[real("y", "T")],
                           type_constraints=[("T", ["tensor(float)"], "")])  # fmt: skip
    defs.register_schema(schema)
    try:
        values = [helper.make_tensor_value_info(name, 1, [2]) for name in "xy"]
        graph = helper.make_graph(
            [helper.make_node("Own", ["x"], ["y"], domain="own.domain")], "g", *([value] for value in values)
        )
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("own.domain", 1)], ir_version=8)
        checker.check_model(model)
        return model
    finally:
        defs.deregister_schema("Own", 1, "own.domain")


def catches_a_wrong_model(folder: Path) -> Any:
    import onnx
    from onnx.checker import ValidationError

    model = small_model()
    model.graph.node[0].op_type = "NoSuchOperator"
    try:
        onnx.checker.check_model(model)
    except ValidationError as error:
        return type(error).__name__, str(error)
    return None


def catches_a_wrong_file(folder: Path) -> Any:
    import onnx
    from google.protobuf.message import DecodeError

    (folder / "wrong.onnx").write_bytes(b"this is no model at all")
    try:
        onnx.load(folder / "wrong.onnx")
    except DecodeError:
        return "DecodeError"
    return None


def prints_and_parses_text(folder: Path) -> Any:
    import onnx
    import onnx.parser
    import onnx.printer

    text = onnx.printer.to_text(small_model())
    return text, onnx.parser.parse_model(text), onnx.printer.to_text(small_model().graph.node[0])


def inlines_functions(folder: Path) -> Any:
    import onnx.inliner
    from onnx import parser

    model = parser.parse_model(
        """<ir_version: 9, opset_import: ["": 17, "local": 1]>
        g (float[2] x) => (float[2] y) { y = local.twice(x) }
        <domain: "local", opset_import: ["": 17]> twice (a) => (b) { b = Add(a, a) }"""
    )
    return onnx.inliner.inline_local_functions(model)


def copies_and_compares(folder: Path) -> Any:
    import copy

    import onnx

    model = small_model()
    one, two = copy.deepcopy(model), onnx.ModelProto()
    two.CopyFrom(model)
    one.graph.name = "changed"
    return model == two, model == one, model.graph.name, one.graph.name, hasattr(model, "__hash__")


def makes_every_kind_of_type(folder: Path) -> Any:
    from onnx import TensorProto, helper

    tensor = helper.make_tensor_type_proto(TensorProto.FLOAT, [1, "n", None])
    kinds = [tensor, helper.make_sequence_type_proto(tensor), helper.make_optional_type_proto(tensor)]
    kinds.append(helper.make_map_type_proto(TensorProto.INT64, tensor))
    return [(kind, kind.WhichOneof("value")) for kind in kinds]


def reads_all_fields(folder: Path) -> Any:
    from google.protobuf.message import Message

    def plain(message: Any) -> Any:
        found = {}
        for field, value in message.ListFields():
            if field.message_type is None:
                found[field.name] = list(value) if field.is_repeated else value
            else:
                found[field.name] = [plain(each) for each in value] if field.is_repeated else plain(value)
        return found

    model = small_model()
    return plain(model), isinstance(model, Message), {field.name for field in model.DESCRIPTOR.fields}


def writes_json_and_text(folder: Path) -> Any:
    import onnx
    from google.protobuf import json_format, text_format

    model = small_model()
    onnx.save(model, folder / "m.textproto")
    text = text_format.MessageToString(model)
    back = text_format.Parse(text, onnx.ModelProto())
    as_json = json_format.MessageToDict(model)
    return onnx.load(folder / "m.textproto"), text, back, as_json, json_format.ParseDict(as_json, onnx.ModelProto())


def makes_sparse_tensors_and_sequences(folder: Path) -> Any:
    import numpy as np
    import onnx
    from onnx import helper, numpy_helper

    values = helper.make_tensor("v", onnx.TensorProto.FLOAT, [2], [1.0, 2.0])
    places = helper.make_tensor("i", onnx.TensorProto.INT64, [2], [3, 5])
    sequence = numpy_helper.from_list([np.ones(2), np.zeros(3)], "s")
    return helper.make_sparse_tensor(values, places, [10]), sequence, numpy_helper.to_list(sequence)


def makes_training_information(folder: Path) -> Any:
    from onnx import helper

    model = small_model()
    model.training_info.append(helper.make_training_info(model.graph, [("a", "b")], None, None))
    return model


def runs_a_backend(folder: Path) -> Any:
    import numpy as np
    import onnx
    from onnx.backend.base import Backend, BackendRep
    from onnx.reference import ReferenceEvaluator

    class Rep(BackendRep):
        def __init__(self, model: Any) -> None:
            self.evaluator = ReferenceEvaluator(model)

        def run(self, inputs: Any, **more: Any) -> Any:
            return tuple(self.evaluator.run(None, {"x": inputs[0]}))

    class Own(Backend):
        @classmethod
        def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **more: Any) -> Any:
            super().prepare(model, device, **more)
            return Rep(model)

    return Own.run_model(small_model(), [np.ones((1, 3, 8, 8), np.float32)])


def runs_in_onnxruntime(folder: Path) -> Any:
    import numpy as np
    import onnxruntime

    session = onnxruntime.InferenceSession(small_model().SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"x": np.ones((1, 3, 8, 8), np.float32)})

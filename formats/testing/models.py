"""The models for the checks of codecs: together they have all features of ONNX models."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from formats.ir.dtypes import BOOL, DATA_TYPES, FLOAT, INT64
from formats.ir.model import (
    Attribute,
    AttributeType,
    Dimension,
    Function,
    Graph,
    Model,
    Node,
    OperatorSetId,
    SparseTensor,
    StringStringEntry,
    Tensor,
    TensorShape,
    TensorType,
    Type,
    ValueInfo,
)
from formats.ir.storage import from_numpy
from formats.tensordata.sources.source import Literal

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


def _value(name: str, *dims: int | str, data_type: int = FLOAT) -> ValueInfo:
    shape = [Dimension(dim_param=dim) if isinstance(dim, str) else Dimension(dim_value=dim) for dim in dims]
    tensor_type = TensorType(elem_type=data_type, shape=TensorShape(dim=shape))
    return ValueInfo(name=name, type=Type(tensor_type=tensor_type))


def _model(graph: Graph, **fields: Any) -> Model:
    return Model(ir_version=8, opset_import=[OperatorSetId(domain="", version=17)], graph=graph, **fields)


def linear(size: int) -> Model:
    """A matrix product with a weight of `size` x `size` floats."""
    import numpy

    weight = numpy.random.default_rng(size).random((size, size), dtype=numpy.float32)
    graph = Graph(name="linear", input=[_value("x", "n", size)], output=[_value("y", "n", size)])
    graph.initializer = [from_numpy(weight, "w")]
    graph.node = [Node(op_type="MatMul", input=["x", "w"], output=["y"], name="product")]
    return _model(graph)


def branches() -> Model:
    """An If whose branches use values of the graph around them, and have their own constants."""
    import numpy

    then = Graph(name="then", node=[Node(op_type="Add", input=["x", "big"], output=["y"], name="sum")])
    then.initializer = [from_numpy(numpy.arange(100, dtype=numpy.float32), "big")]
    other = Graph(name="other", node=[Node(op_type="Relu", input=["x"], output=["y"], name="relu")])
    then.output, other.output = [_value("y", 100)], [_value("y", 100)]
    attributes = [
        Attribute(name="then_branch", type=AttributeType.GRAPH.value, g=then),
        Attribute(name="else_branch", type=AttributeType.GRAPH.value, g=other),
    ]
    graph = Graph(name="branches", input=[_value("c", data_type=BOOL), _value("x", 100)], output=[_value("z", 100)])
    graph.node = [Node(op_type="If", input=["c"], output=["z"], attribute=attributes, name="if")]
    return _model(graph)


def element_types() -> Model:
    """An initialiser of every element type, in raw form, one of them empty, one a scalar."""
    graph = Graph(name="types", input=[_value("x", 1)], output=[_value("y", 1)])
    graph.node = [Node(op_type="Relu", input=["x"], output=["y"], name="relu")]
    for row in DATA_TYPES:
        tensor = Tensor(dims=[3], data_type=row.number, name=f"of_{row.name.lower()}")
        if row.bits:
            tensor.raw_data = Literal(bytes(range(1, 200))[: row.nbytes([3])])
        else:
            tensor.string_data = [b"", b"text", "\u4e16".encode()]
        graph.initializer.append(tensor)
    graph.initializer += [
        Tensor(dims=[0, 4], data_type=FLOAT, name="empty", raw_data=Literal(b"")),
        Tensor(dims=[], data_type=INT64, name="scalar", raw_data=Literal((5).to_bytes(8, "little"))),
    ]
    return _model(graph)


def rich() -> Model:
    """Other features of ONNX: text everywhere, functions, sparse tensors, attributes, names of all kinds."""
    import numpy

    values = from_numpy(numpy.array([1.0, 2.0], numpy.float32), "sparse")
    indices = from_numpy(numpy.array([1, 3], numpy.int64), "indices")
    graph = Graph(name="rich", doc_string="A graph", input=[_value("x", "n", 4)], output=[_value("\u00fc/y:0", "n", 4)])
    graph.sparse_initializer = [SparseTensor(values=values, indices=indices, dims=[4])]
    alpha = Attribute(name="alpha", type=AttributeType.FLOAT.value, f=0.5)
    graph.node = [
        Node(op_type="LeakyRelu", input=["x"], output=["inner"], attribute=[alpha], name="leaky", doc_string="A node"),
        Node(op_type="Twice", domain="my.domain", input=["inner"], output=["\u00fc/y:0"], name="twice"),
    ]
    graph.value_info = [_value("inner", "n", 4)]
    function = Function(name="Twice", domain="my.domain", input=["a"], output=["b"])
    function.opset_import = [OperatorSetId(domain="", version=17)]
    function.node = [Node(op_type="Add", input=["a", "a"], output=["b"], name="add")]
    model = _model(graph, producer_name="formats.testing", doc_string="A model", functions=[function])
    model.opset_import.append(OperatorSetId(domain="my.domain", version=1))
    model.metadata_props = [
        StringStringEntry(key="author", value="\u4e16\u754c"),
        StringStringEntry(key="empty", value=""),
    ]
    return model


def many_weights() -> Model:
    """Two hundred small weights, two of them with equal bytes, and names that differ only in case."""
    import numpy

    graph = Graph(name="many", input=[_value("x", 64)], output=[_value("sum_199", 64)])
    last = "x"
    for index in range(200):
        name = f"W{index}" if index % 2 else f"w{index - 1 if index == 198 else index}"
        weight = numpy.full(64, min(index, 198), numpy.float32)
        graph.initializer.append(from_numpy(weight, f"{name}_{index}"))
        output = f"sum_{index}"
        node = Node(op_type="Add", input=[last, f"{name}_{index}"], output=[output], name=f"add_{index}")
        graph.node.append(node)
        last = output
    return _model(graph)


MODELS: Mapping[str, Callable[[], Model]] = {
    "small": lambda: linear(3),
    "large": lambda: linear(700),
    "branches": branches,
    "element_types": element_types,
    "rich": rich,
    "many_weights": many_weights,
}

"""Shared parts of the tests of the .rten codec: the runtime, and short ways to make small models."""

from __future__ import annotations

import numpy as np
import pytest

from formats.ir.model import (
    Dimension,
    Graph,
    Model,
    OperatorSetId,
    SequenceType,
    Tensor,
    TensorShape,
    TensorType,
    Type,
    ValueInfo,
)
from formats.ir.storage import from_numpy
from formats.rten.graph.attributes import make_node
from tests.runtime.runner import RELEASES


@pytest.fixture(params=RELEASES)
def runtime(request, runtimes):
    """The real RTen runtime, in each of its releases."""
    return runtimes[request.param]


class Make:
    """Makes models, graphs and values."""

    node = staticmethod(make_node)

    @staticmethod
    def value(name: str, elem_type: int | None = 1, dims=None) -> ValueInfo:
        """Return a tensor value; each of `dims` is a size, a name or None."""
        shape = None
        if dims is not None:
            shape = TensorShape()
            for dim in dims:
                named = isinstance(dim, str)
                shape.dim.append(Dimension(dim_param=dim if named else None, dim_value=None if named else dim))
        return ValueInfo(name=name, type=Type(tensor_type=TensorType(elem_type=elem_type, shape=shape)))

    @staticmethod
    def sequence(name: str, elem_type: int = 1) -> ValueInfo:
        """Return a sequence of tensors."""
        inner = Type(tensor_type=TensorType(elem_type=elem_type))
        return ValueInfo(name=name, type=Type(sequence_type=SequenceType(elem_type=inner)))

    @staticmethod
    def tensor(name: str, values, dtype="float32") -> Tensor:
        """Return a tensor with raw data."""
        return from_numpy(np.array(values, dtype), name)

    @classmethod
    def graph(cls, nodes=(), inputs=(), outputs=(), constants=()) -> Graph:
        """Return a graph; an input or output that is only a name is a float of unknown shape."""
        values = [[v if isinstance(v, ValueInfo) else cls.value(v) for v in group] for group in (inputs, outputs)]
        return Graph(node=list(nodes), input=values[0], output=values[1], initializer=list(constants))

    @staticmethod
    def model(graph: Graph, opset: int = 21, ir_version: int = 10) -> Model:
        """Return a model of ONNX operators."""
        return Model(ir_version=ir_version, opset_import=[OperatorSetId(domain="", version=opset)], graph=graph)


@pytest.fixture(scope="session")
def make() -> type[Make]:
    """Makes small models."""
    return Make

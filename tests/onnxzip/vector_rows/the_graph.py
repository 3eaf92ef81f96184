"""Requirements for the message of the graph."""

from __future__ import annotations

from collections.abc import Callable

from tests.onnxzip.archives import (
    EXTERNAL,
    OWN,
    PLACE,
    TENSOR,
    Member,
    Zip,
    around,
    external,
    group,
    message,
    model,
    number,
    of,
    of_graph,
    tag,
    tensor,
    varint,
)
from tests.onnxzip.vector_rows.row import Row


def nested(depth: int, *parts: bytes) -> bytes:
    """Return a ModelProto with a graph at this depth (one more than a multiple of 3) that has these fields."""
    graph = b"".join(parts)
    for _ in range(depth // 3):
        graph = message(1, message(5, message(6, graph)))  # node, attribute, g
    return message(7, graph)


def attribute(*parts: bytes) -> bytes:
    """Return a node with an attribute that has these fields."""
    return message(1, message(5, *parts))


def groups(depth: int) -> bytes:
    """Return groups inside groups."""
    return depth * tag(99, 3) + depth * tag(99, 4)


NODE = message(1, message(1, b"x"))  # a node with a name
IN_GRAPH = message(5, TENSOR)
PLACES: tuple[tuple[str, Callable[[bytes], bytes]], ...] = (
    ("model", lambda field: model(TENSOR) + field),
    ("graph", lambda field: of_graph(IN_GRAPH, field)),
    ("node", lambda field: of_graph(IN_GRAPH, message(1, field))),
    ("attribute", lambda field: of_graph(IN_GRAPH, attribute(field))),
    ("tensor", lambda field: model(tensor(more=field))),
    ("tensor with its own data", lambda field: model(TENSOR, OWN + field)),
    (
        "reference",
        lambda field: model(tensor(places=message(13, message(1, b"location"), message(2, b"w"), field))),
    ),
)
THE_GRAPH: list[Row] = [
    *(
        Row("Z-6.1", f"{name}, in a {where}", around(wrap(bad)), reason, around(wrap(good)))
        for where, wrap in PLACES
        for name, bad, reason, good in (
            ("number 0", b"\0\0", "invalid", number(99, 0)),
            ("number 2**29", varint(1 << 32) + b"\0", "invalid", varint((1 << 32) - 8) + b"\0"),
            ("wire type 6", tag(99, 6) + b"\0", "wire type 6", tag(99, 0) + b"\0"),
            ("wire type 7", tag(99, 7) + b"\0", "wire type 7", tag(99, 5) + bytes(4)),
            ("wire type 6 at the end", tag(99, 6), "wire type 6", tag(99, 0) + b"\0"),
            ("wire type 7 at the end", tag(99, 7), "wire type 7", tag(99, 5) + bytes(4)),
            ("cut 8 bytes", tag(99, 1) + bytes(7), "inside a field", tag(99, 1) + bytes(8)),
            ("cut 4 bytes", tag(99, 5) + bytes(3), "inside a field", tag(99, 5) + bytes(4)),
            ("cut bytes", tag(99, 2) + b"\2\0", "inside a field", tag(99, 2) + b"\1\0"),
            ("huge length", tag(99, 2) + varint(1 << 34), "inside a field", tag(99, 2) + b"\0"),
            ("cut tag", b"\x98", "inside a field", tag(99, 2) + varint(0, 5)),
            ("end of a group", tag(99, 4), "ends but did not begin", group(99)),
        )
    ),
    Row(
        "Z-6.1",
        "graph longer than the model",
        around(tag(7, 2) + varint(99) + IN_GRAPH),
        "left",
        around(message(7, IN_GRAPH)),
    ),
    Row(
        "Z-6.1",
        "node longer than its graph",
        around(message(7, IN_GRAPH, tag(1, 2) + b"\1") + number(1, 10)),
        "left",
        around(message(7, IN_GRAPH, tag(1, 2) + b"\0") + number(1, 10)),
    ),
    *(
        Row(
            "Z-6.2",
            name,
            around(model(TENSOR) + tag(99, 0) + bad),
            "a varint",
            around(model(TENSOR) + tag(99, 0) + good),
        )
        for name, bad, good in (
            ("varint of 11 bytes", varint(1, 11), varint(1, 10)),
            ("varint of 2**64", b"\x80" * 9 + b"\2", b"\xff" * 9 + b"\1"),
        )
    ),
    *(
        Row(
            "Z-6.2",
            f"{name}, in a {where}",
            around(wrap(bad)),
            "longer than 5 bytes",
            around(wrap(good)),
        )
        for where, wrap in PLACES
        for name, bad, good in (
            ("tag of 6 bytes", varint(99 << 3, 6) + b"\0", varint(99 << 3, 5) + b"\0"),
            ("length of 6 bytes", tag(99, 2) + varint(0, 6), tag(99, 2) + varint(0, 5)),
            ("tag in a group of 6 bytes", group(99, varint(98 << 3, 6) + b"\0"), group(99, varint(98 << 3, 5) + b"\0")),
            ("length in a group of 6 bytes", group(99, tag(98, 2), varint(0, 6)), group(99, tag(98, 2), varint(0, 5))),
            ("end of a group of 6 bytes", tag(99, 3) + varint(99 << 3 | 4, 6), tag(99, 3) + varint(99 << 3 | 4, 5)),
        )
    ),
    *(
        Row("Z-6.2", name, around(bad), "longer than 5 bytes", around(good))
        for name, bad, good in (
            (
                "long tag and length of the graph",
                varint(7 << 3 | 2, 6) + message(7, IN_GRAPH)[1:],
                varint(7 << 3 | 2, 5) + varint(len(IN_GRAPH) + 4, 5) + varint(5 << 3 | 2, 5) + IN_GRAPH[1:],
            ),
            (
                "long length of the graph",
                tag(7, 2) + varint(len(IN_GRAPH), 6) + IN_GRAPH,
                tag(7, 2) + varint(len(IN_GRAPH), 5) + IN_GRAPH,
            ),
        )
    ),
    Row("Z-6.2", "long dims", None, "", of(tensor(dims=(), more=tag(1, 0) + varint(8, 10)))),
    Row("Z-6.2", "long packed dims", None, "", of(tensor(dims=(), more=message(1, varint(8, 10))))),
    *(
        Row("Z-6.3", name, around(model(TENSOR) + bad), reason, around(model(TENSOR) + good))
        for name, bad, reason, good in (
            ("group that ends as another", tag(99, 3) + tag(98, 4), "another group must", group(99)),
            ("groups that cross", b"".join(map(tag, (9, 8, 9, 8), (3, 3, 4, 4))), "another group", group(9, group(8))),
            ("group without an end", tag(99, 3), "inside a group", group(99, number(1, 1), message(2, b"x"))),
            ("101 groups", groups(101), "groups are nested", groups(100)),
        )
    ),
    Row(
        "Z-6.3",
        "group that ends behind its message",
        around(message(7, IN_GRAPH, tag(99, 3)) + tag(99, 4)),
        "inside a",
        around(message(7, IN_GRAPH) + group(99)),
        breaks="Z-6.1",
    ),
    Row("Z-6.3", "group as a known field", None, "", around(model(TENSOR) + group(7, message(5, b"\xff")) + group(1))),
    *(
        Row("Z-6.4", f"{name} at depth 101", around(bad), "nested more than", around(good))
        for name, bad, good in (
            ("node", nested(100, message(1)) + message(7, IN_GRAPH), nested(100) + message(7, IN_GRAPH)),
            (
                "reference",
                nested(97, attribute(message(5, TENSOR))),
                nested(97, attribute(message(5, OWN)), IN_GRAPH),
            ),
            (
                "values",
                nested(97, attribute(message(22, message(1))), IN_GRAPH),
                nested(97, attribute(message(22, number(3, 8))), IN_GRAPH),
            ),
        )
    ),
    Row(
        "Z-6.4",
        "deep messages that are not entered",
        None,
        "",
        around(of_graph(IN_GRAPH, message(11, *(127 * [tag(2, 2) + b"\x7f"])))),
        is_model=False,
    ),
    *(
        Row("Z-6.5", name, Zip([Member(b"__MODEL_PROTO", bad)]), "no graph", Zip([Member(b"__MODEL_PROTO", good)]))
        for name, bad, good in (
            ("empty model", b"", message(7)),
            ("graph as a number", number(7, 1), number(7, 1) + message(7)),
        )
    ),
    *(
        Row(
            "Z-7.11",
            f"external tensor in {name}, wire type or number wrong",
            around(bad),
            "belong to no tensor",
            around(good),
        )
        for name, bad, good in (
            ("graph", message(8, IN_GRAPH) + message(7), message(7, IN_GRAPH)),
            (
                "training_info.initialization",
                message(7) + message(20, message(3, IN_GRAPH)),
                message(7) + message(20, message(1, IN_GRAPH)),
            ),
            (
                "training_info.algorithm",
                message(7) + message(21, message(2, IN_GRAPH)),
                message(7) + message(20, message(2, IN_GRAPH)),
            ),
            (
                "functions.node",
                message(7) + message(25, message(77, message(5, message(5, TENSOR)))),
                message(7) + message(25, message(7, message(5, message(5, TENSOR)))),
            ),
            (
                "functions.attribute_proto",
                message(7) + message(25, message(99, message(5, TENSOR))),
                message(7) + message(25, message(11, message(5, TENSOR))),
            ),
            ("graph.initializer", of_graph(message(55, TENSOR)), of_graph(message(5, TENSOR))),
            (
                "graph.sparse_initializer.values",
                of_graph(message(15, message(4, TENSOR))),
                of_graph(message(15, message(1, TENSOR))),
            ),
            (
                "graph.sparse_initializer.indices",
                of_graph(message(17, message(2, TENSOR))),
                of_graph(message(15, message(2, TENSOR))),
            ),
            ("attribute.t", of_graph(attribute(message(55, TENSOR))), of_graph(attribute(message(5, TENSOR)))),
            (
                "attribute.tensors",
                of_graph(attribute(message(12, TENSOR))),
                of_graph(attribute(message(10, OWN), message(10, TENSOR))),
            ),
            ("attribute.g", of_graph(attribute(message(66, IN_GRAPH))), of_graph(attribute(message(6, IN_GRAPH)))),
            (
                "attribute.graphs",
                of_graph(attribute(message(16, IN_GRAPH))),
                of_graph(attribute(message(11), message(11, IN_GRAPH))),
            ),
            (
                "attribute.sparse_tensor",
                of_graph(attribute(message(24, message(1, TENSOR)))),
                of_graph(attribute(message(22, message(1, TENSOR)))),
            ),
            (
                "attribute.sparse_tensors",
                of_graph(attribute(message(25, message(2, TENSOR)))),
                of_graph(attribute(message(23, message(2, TENSOR)))),
            ),
            ("the last of many nodes", of_graph(*(9 * [NODE])), of_graph(*(9 * [NODE]), attribute(message(5, TENSOR)))),
        )
    ),
    Row(
        "Z-6.6",
        "data_location with 8 bytes",
        of(tensor(data_location=tag(14, 1) + b"\1" + bytes(7))),
        "belong to no tensor",
        of(tensor(more=tag(14, 1) + bytes(8))),
        breaks="Z-7.11",
    ),
    Row(
        "Z-6.6",
        "data_type with 4 bytes",
        of(tensor(data_type=None, more=tag(2, 5) + b"\2\0\0\0")),
        "element type",
        of(tensor(more=tag(2, 5) + b"\1\0\0\0")),
        breaks="Z-7.8",
    ),
    Row(
        "Z-6.6",
        "key as a number",
        of(tensor(places=PLACE + message(13, number(1, 1)))),
        "keys",
        of(tensor(places=message(13, number(1, 1), message(1, b"location"), message(2, b"w"), number(2, 1)))),
        breaks="Z-7.2",
    ),
    Row(
        "Z-6.6",
        "free fields",
        None,
        "",
        around(
            number(7, 1)
            + of_graph(number(5, 1), IN_GRAPH, tag(1, 5) + bytes(4), message(2, b"\xff"))
            + message(14, b"\xff")
        ),
        is_model=False,
    ),
    Row(
        "Z-6.6",
        "what is not entered may be anything",
        None,
        "",
        around(model(TENSOR) + message(8, b"\xff") + message(14, b"\xff\xff")),
        is_model=False,
    ),
    Row(
        "Z-6.6",
        "names that are not UTF-8",
        None,
        "",
        around(
            number(1, 10)
            + message(7, message(2, b"\xff"), message(5, TENSOR, message(8, b"\xe9")), message(1, message(1, b"\xff")))
        ),
    ),
    *(
        Row("Z-6.7", name, around(of_graph(*bad)), reason, around(of_graph(*good)), breaks=breaks)
        for name, bad, reason, good, breaks in (
            (
                "t in parts, key twice",
                [attribute(message(5, TENSOR), message(5, external(length="8")))],
                "keys",
                [
                    attribute(
                        message(5, number(1, 8), number(2, 2), external(location="w")),
                        message(5, external(length="8"), EXTERNAL),
                    )
                ],
                "Z-7.2",
            ),
            (
                "t in parts, not external at last",
                [attribute(message(5, TENSOR), message(5, number(14, 0)))],
                "belong to no tensor",
                [attribute(message(5, tensor(data_location=number(14, 0))), message(5, EXTERNAL))],
                "Z-7.11",
            ),
            (
                "sparse_tensor in parts",
                [attribute(message(22, message(1, TENSOR)), message(22, message(1, message(9))))],
                "both in an entry and in the graph",
                [
                    attribute(
                        message(22, message(1, number(1, 4), number(2, 2))),
                        message(22, message(2, OWN), message(1, number(1, 2), PLACE, EXTERNAL)),
                    )
                ],
                "Z-7.6",
            ),
            (
                "values in parts",
                [message(15, message(1, TENSOR), message(1, number(2, 3), number(1, 2)))],
                "need 16",
                [message(15, message(1, tensor(data_type=11)), message(1, number(2, 3)))],
                "Z-7.10",
            ),
        )
    ),
    Row(
        "Z-6.7",
        "graph in parts",
        around(of_graph(IN_GRAPH) + message(7, message(5, tensor("v")))),
        "not an entry",
        around(of_graph(message(5, OWN)) + message(7, IN_GRAPH)),
        breaks="Z-7.3",
    ),
    Row(
        "Z-6.7",
        "tensors are not parts of one",
        around(of_graph(attribute(message(10, TENSOR), message(10, PLACE + EXTERNAL)))),
        "element type",
        around(of_graph(attribute(message(10, TENSOR), message(10, tensor(dims=(2, 2, 2)))))),
        breaks="Z-7.8",
    ),
    Row(
        "Z-6.7",
        "last data_type",
        of(tensor(data_type=2, more=number(2, 11))),
        "need 64",
        of(tensor(data_type=11, more=number(2, 2))),
        breaks="Z-7.10",
    ),
    Row(
        "Z-6.7",
        "last value",
        of(tensor(places=message(13, message(1, b"location"), message(2, b"w"), message(2, b"v")))),
        "not an entry",
        of(tensor(places=message(13, message(1, b"x"), message(2, b"v"), message(1, b"location"), message(2, b"w")))),
        breaks="Z-7.3",
    ),
    Row(
        "Z-6.7",
        "packed dims cut",
        of(tensor(dims=(), more=message(1, b"\x08\x80"))),
        "do not fill their field",
        of(tensor(dims=(), more=message(1, b"\x08\x01"))),
    ),
    Row(
        "Z-6.7",
        "dims in parts",
        of(tensor(dims=(2,), more=message(1, b"\2\2") + number(1, 2))),
        "need 16",
        of(tensor(dims=(2,), more=message(1, b"\2") + number(1, 2) + message(1))),
        breaks="Z-7.10",
    ),
]

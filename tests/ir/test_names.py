"""New names differ from existing ones."""

from formats.ir.node_order import Names


def test_new():
    """A free name is used unchanged, once; after that, it gets a number."""
    names = Names(["a"])
    names.take(["b_1"])
    assert ["a_1", "a_2", "b", "b_2", "c_1"] == [*map(names.new, ("a", "a", "b", "b")), names.new("c", avoid={"c"})]


def test_many():
    """A great many values of one name get their names as fast as others."""
    names = Names()
    assert 200_000 == len({names.new("x") for _ in range(200_000)})

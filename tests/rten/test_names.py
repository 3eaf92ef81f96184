"""New names differ from those that are taken."""

from formats.rten.graph.names import Names


def test_new():
    """A free name is given out as it is, and once; then it is numbered."""
    names = Names(["a"])
    names.take("b_1")
    assert ["a_1", "a_2", "b", "b_2", "c_1"] == [*map(names.new, ("a", "a", "b", "b")), names.new("c", avoid={"c"})]


def test_many():
    """A great many values of one name get theirs in no more time than others."""
    names = Names()
    assert 200_000 == len({names.new("x") for _ in range(200_000)})

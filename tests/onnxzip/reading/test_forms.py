"""Forms of messages are learned from those that have none, as long as they help."""

from __future__ import annotations

from formats.onnxzip.reading import forms
from formats.onnxzip.reading.forms import Forms


def test_forms_that_are_of_no_use_are_given_up() -> None:
    """A reader of a graph in which no node is like another stops to look for forms; it holds few in any case."""
    found = Forms()
    for number in range(20_000):
        assert found.end_of_run(b"", 0, 0) == 0
        if found.wants_one:
            found.add(0x0A, b"\x22\x06%06d" % number, [])
    assert not found.wants_one
    assert found.end_of_run(b"\x0a\x08\x22\x06%06d" % (forms.SAMPLE - 1), 0, 10) == 0

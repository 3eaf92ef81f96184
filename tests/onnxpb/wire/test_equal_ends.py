"""Common fields at both ends of two sequences of fields."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from formats.onnxpb.wire.fields_in_source import equal_ends
from formats.onnxpb.wire.varints import encode_varint

FIELDS = st.lists(
    st.sampled_from((b"", b"a", b"b", b"aa", b"\x0a\x01a", b"c" * 127, b"c" * 128, b"d" * 300)), max_size=8
)


def run(payloads: list[bytes], tag: int = 0x0A) -> bytes:
    """Return fields with a length, one after another."""
    return b"".join(encode_varint(tag) + encode_varint(len(payload)) + payload for payload in payloads)


@given(FIELDS, FIELDS, st.sampled_from((0x0A, 0xCA02)))
@example([b"x", b"\x0a\x01a"], [b"a"], 0x0A)  # the last bytes are equal, from the middle of a field on
@example([b"a", b"a"], [b"a"], 0x0A)
def test_equal_fields_at_both_ends(mine: list[bytes], theirs: list[bytes], tag: int) -> None:
    """All equal fields at the start are counted, then all at the end, and no field twice."""
    most = min(len(mine), len(theirs))
    first = next((count for count in range(most) if mine[count] != theirs[count]), most)
    last = next((n for n in range(most - first) if mine[-1 - n] != theirs[-1 - n]), most - first)
    sizes = len(run(mine[:first], tag)), len(run(mine[len(mine) - last :], tag))
    assert (first, sizes[0], last, sizes[1]) == equal_ends(run(mine, tag), run(theirs, tag))

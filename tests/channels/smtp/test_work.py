"""A body in pieces says what it says in one: no dot is stuffed twice, or forgotten, where a piece ends."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.smtp import message
from channels.smtp.message import FINAL_DOT, Body, stuffed

BODIES = st.lists(st.sampled_from([b".", b"\r\n", b"\r\n.", b"a"]), max_size=12).map(
    lambda some: b"".join(some) + b"\r\n"
)


def _whole(data: bytes, *, chunking: bool) -> bytes:
    body = Body(data, chunking=chunking)
    pieces = []
    while not body.is_over:
        pieces.append(body.piece())
    return b"".join(pieces)


@given(BODIES, st.integers(min_value=2, max_value=7))
def test_dots_are_stuffed_wherever_a_piece_ends(data: bytes, size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(message, "PIECE_BYTES", size)
        assert _whole(data, chunking=False) == stuffed(data) + FINAL_DOT
        assert _whole(data, chunking=True) == b"BDAT %d LAST\r\n%b" % (len(data), data)

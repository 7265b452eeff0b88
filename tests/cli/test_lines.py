"""Properties of cutting a stream into lines."""

from io import BufferedReader, BytesIO, RawIOBase

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dispatcher.cli import lines
from dispatcher.cli.lines import BATCH_MAX, Lines


class Trickle(RawIOBase):
    """A pipe: every read gives what was written at once, and no more."""

    def __init__(self, pieces: list[bytes]) -> None:
        self._pieces = pieces

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview, /) -> int:  # type: ignore[override]  # what BufferedReader gives is one
        piece = self._pieces.pop(0) if self._pieces else b""
        buffer[: len(piece)] = piece
        return len(piece)


def cut(*pieces: bytes) -> list[list[tuple[int, bytes | None]]]:
    reader = Lines(BufferedReader(Trickle(list(pieces))))
    return [[(line.number, line.content) for line in batch] for batch in reader.batches()]


def flat(*pieces: bytes) -> list[tuple[int, bytes | None]]:
    return [line for batch in cut(*pieces) for line in batch]


@given(st.lists(st.binary(min_size=1, max_size=30), max_size=20))
def test_pieces_do_not_matter(pieces: list[bytes]) -> None:
    whole = b"".join(pieces).removeprefix(b"\xef\xbb\xbf")
    expected = [(n, text) for n, text in enumerate(whole.split(b"\n"), start=1) if text.strip()]
    assert flat(*pieces) == expected


def test_a_batch_does_not_wait_for_what_has_not_arrived() -> None:
    assert cut(b"a\nb\nc", b"c\n") == [[(1, b"a"), (2, b"b")], [(3, b"cc")]]


def test_a_batch_is_bounded() -> None:
    assert [len(batch) for batch in cut(b"x\n" * (2 * BATCH_MAX + 1))] == [BATCH_MAX, BATCH_MAX, 1]


@pytest.mark.parametrize("ending", [b"\nnext\n", b"\nnext", b"y" * 50 + b"\nnext"])
def test_a_line_over_the_limit_is_not_kept_and_the_next_one_is_read(
    ending: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 10)
    assert flat(b"0123456789\n", b"0123", b"4567890", ending) == [(1, b"0123456789"), (2, None), (3, b"next")]


def test_a_last_line_over_the_limit_is_reported_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "LINE_BYTES_MAX", 10)
    assert flat(b"x" * 11) == [(1, None)]


def test_it_says_how_far_it_came() -> None:
    reader = Lines(BufferedReader(BytesIO(b"one\ntwo\n")))
    assert list(reader.batches())
    assert reader.bytes_read == 8

"""Segments of SMS: the two alphabets at their limits, and signs that are never divided."""

import pytest

from dispatcher.base.values.sms_segments import Segments, segments_of, sms_segments

BASIC = (
    "@£$¥èéùìòÇ\nØø\rÅåΔ_ΦΓΛΩΠΨΣΘΞÆæßÉ !\"#¤%&'()*+,-./0123456789:;<=>?"
    "¡ABCDEFGHIJKLMNOPQRSTUVWXYZÄÖÑÜ§¿abcdefghijklmnopqrstuvwxyzäöñüà"
)
EMOJI = "\N{GRINNING FACE}"


def test_the_alphabet_has_its_127_signs_and_ten_more() -> None:
    assert sms_segments(BASIC) == Segments("GSM-7", 1, 127)
    assert sms_segments("\f^{}\\[~]|€") == Segments("GSM-7", 1, 20)
    for sign in "`ç\tâ\u2019\u2013\u201c\x00":
        assert sms_segments(sign).encoding == "UCS-2", sign


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", Segments("GSM-7", 1, 0)),
        ("x" * 160, Segments("GSM-7", 1, 160)),
        ("x" * 161, Segments("GSM-7", 2, 161)),
        ("x" * 306, Segments("GSM-7", 2, 306)),
        ("x" * 307, Segments("GSM-7", 3, 307)),
        ("€" * 80, Segments("GSM-7", 1, 160)),
        # The sign of two would lie across the end of the first segment.
        ("x" * 152 + "€" + "x" * 152, Segments("GSM-7", 3, 306)),
        ("x" * 151 + "€" + "x" * 153, Segments("GSM-7", 2, 306)),
        ("x" * 1_600, Segments("GSM-7", 11, 1_600)),
        ("â" * 70, Segments("UCS-2", 1, 70)),
        ("â" * 71, Segments("UCS-2", 2, 71)),
        ("â" * 134, Segments("UCS-2", 2, 134)),
        ("x" * 134 + "â", Segments("UCS-2", 3, 135)),
        (EMOJI * 35, Segments("UCS-2", 1, 70)),
        ("â" * 66 + EMOJI + "â" * 66, Segments("UCS-2", 3, 134)),
        ("x" * 159 + EMOJI, Segments("UCS-2", 3, 161)),
    ],
)
def test_texts_at_the_limits(text: str, expected: Segments) -> None:
    assert sms_segments(text) == expected


def test_only_an_sms_has_segments() -> None:
    assert segments_of("sms", {"body": "x"}) == Segments("GSM-7", 1, 1)
    assert segments_of("whatsapp", {"body": "x"}) is None
    assert segments_of("sms", {}) is None
    assert segments_of("sms", {"body": "x" * 10_001}) is None


def test_the_words_are_short() -> None:
    assert sms_segments("x").words == "1 segment (GSM-7)"
    assert sms_segments("â" * 71).words == "2 segments (UCS-2)"

"""Texts as parts: which encoding each gets, and what becomes of an html where a text is wanted."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.shared.mail.bodies import LINE_OCTETS_MAX
from channels.shared.mail.plain_text import plain_text
from tests.channels.shared.mail.mailbox import bare, compose, content, read

LONGEST = "x" * LINE_OCTETS_MAX


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        ("plain words", "7bit"),
        (f"{LONGEST}\n{LONGEST}", "7bit"),
        (f"{LONGEST}x", "quoted-printable"),
        (f"short\n{LONGEST}x\nshort", "quoted-printable"),
        ("some words of English and one ä", "quoted-printable"),
        ("Привет, как дела?", "base64"),
        ("what looks like a boundary: =_", "quoted-printable"),
    ],
)
def test_a_text_goes_as_it_is_where_every_server_takes_it_and_encoded_where_not(text: str, encoding: str) -> None:
    composed = compose(text=text)
    part = read(composed.data)
    assert part["Content-Transfer-Encoding"] == encoding
    assert content(part) == f"{text}\n"
    assert composed.data.isascii()
    assert max(map(len, composed.data.split(b"\r\n"))) <= LINE_OCTETS_MAX


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<p>One<p>Two", "One\n\nTwo"),
        ("<p>a <b>b</b>\n  c</p><p>d</p>", "a b c\n\nd"),
        ("a<br>b<BR/>c", "a\nb\nc"),
        ("<ul><li>a</li><li>b</li></ul>", "- a\n- b"),
        ("<a href='https://x.example/?a=1&amp;b=2'>look</a>", "look (https://x.example/?a=1&b=2)"),
        ('<a href="#top">up</a>', "up"),
        ('<a href="javascript:x()">no</a>', "no"),
        ("<img src=x alt='a lamp'>", "a lamp"),
        ("<style>p { color: red }</style><script>x</script>a<!-- b -->c", "a c"),
        ("<head><title>t</title></head><body>a</body>", "a"),
        ("a<script>never closed", "a"),
        ("1 &lt; 2 &amp; 3&nbsp;&gt; 2", "1 < 2 & 3 > 2"),
        ("<td>a</td><td>b</td>", "a b"),
        (f"&#{'9' * 5_000};", "\N{REPLACEMENT CHARACTER}"),
        ("2 < 3 and <3", "2 < 3 and <3"),
    ],
)
def test_an_html_reads_as_text(html: str, text: str) -> None:
    assert plain_text(html) == f"{text}\n"


@settings(deadline=None)
@given(st.text(st.sampled_from("<>/!-&#;=\"' \n\rapscriptheadbr89x"), max_size=200) | st.text(max_size=200))
def test_every_html_has_a_text(html: str) -> None:
    composed = compose(text=None, html=f"x{html.encode(errors='replace').decode()}".replace("\0", ""))
    assert not bare(composed.data)


@pytest.mark.parametrize("piece", ["<a", "<script", "<!--", '<a href="', "</", "< ", "&#", "alt='", " \n", "href=  "])
def test_a_hostile_html_takes_no_longer_than_its_length(piece: str) -> None:
    # What looked again from every tag at all that follows would take hours for this much, and the run would be ended.
    assert plain_text(piece * (1_000_000 // len(piece))).endswith("\n")

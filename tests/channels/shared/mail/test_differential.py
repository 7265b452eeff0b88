"""Beside the standard library's EmailMessage: whatever both can write, reads the same."""

from datetime import datetime
from email import message_from_bytes
from email.header import decode_header, make_header
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from email.utils import format_datetime, getaddresses
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from channels.shared.mail.composer import Composed
from tests.channels.shared.mail.mailbox import SENDER, bare, compose, content, defects, read
from tests.support.examples import examples

# The first run compiles what both sides need, on a machine that may be busy.
unhurried = settings(deadline=None, max_examples=examples(50, 300), suppress_health_check=[HealthCheck.too_slow])

characters = st.characters(exclude_categories=["Cs", "Cc"])
# Half of it is ASCII: that is what most mail is, and where lines are folded.
words = st.text(characters, max_size=120) | st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=300)
subjects = words.filter(lambda text: text.strip(" ") == text and text.strip() and len(text.splitlines()) == 1)
texts = st.text(characters | st.sampled_from("\n\r\t.=_-"), min_size=1, max_size=1_500)
visible = st.text(st.characters(exclude_categories=["C", "Zl", "Zp"]), max_size=80)
octets = st.binary(max_size=500)
names = st.text(st.characters(exclude_categories=["C", "Z"], exclude_characters="/\\"), min_size=1, max_size=60)
files = st.lists(st.tuples(names, octets), max_size=3)


def reference(
    subject: str, text: str, html: str, attached: list[tuple[str, bytes]], image: bytes | None
) -> EmailMessage:
    """What an application would have written itself."""
    message = EmailMessage(policy=SMTP)
    message["From"] = SENDER
    message["To"] = "ann@example.net"
    message["Subject"] = subject
    message.set_content(text)
    message.add_alternative(html, subtype="html")
    if image is not None:
        shown: Any = list(message.iter_parts())[-1]
        shown.add_related(image, "image", "png", cid="<logo>", disposition="inline")
    for name, data in attached:
        message.add_attachment(data, "application", "octet-stream", filename=name)
    return message


def lines(text: str | bytes) -> str | bytes:
    """What stands in the lines of a text, whatever ends them."""
    return text if isinstance(text, bytes) else text.replace("\r\n", "\n").replace("\r", "\n").rstrip("\n")


def parts(message: EmailMessage) -> list[tuple[str, str | bytes, str | None, str | None]]:
    """Every leaf of a message, in order."""
    return [
        (part.get_content_type(), lines(content(part)), part.get_filename(), part["Content-ID"])
        for part in message.walk()
        if not part.is_multipart()
    ]


@unhurried
@given(subject=subjects, text=texts, html=texts, attached=files, image=octets | st.none())
def test_subject_and_parts_read_as_those_of_the_standard_library(
    subject: str, text: str, html: str, attached: list[tuple[str, bytes]], image: bytes | None
) -> None:
    options: dict[str, Any] = {
        "attachments": [{"name": name, "type": "application/octet-stream", "content": data} for name, data in attached]
    }
    if image is not None:
        options["inline"] = [{"cid": "logo", "type": "image/png", "content": image}]
    composed = compose(options=options, subject=subject, text=text, html=html)
    ours, theirs = read(composed.data), read(reference(subject, text, html, attached, image).as_bytes())
    assert ours["Subject"] == subject
    assert parts(ours) == parts(theirs)
    assert [str(ours[name]) for name in ("From", "To")] == [str(theirs[name]) for name in ("From", "To")]
    sound(composed)


@unhurried
@given(name=visible, value=subjects)
def test_names_and_custom_headers_read_as_they_were_given(name: str, value: str) -> None:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"')
    composed = compose(options={"from": f'"{escaped}" <desk@example.com>', "headers": {"X-Note": value}})
    message = read(composed.data)
    # The newer reader keeps the blanks between two encoded words of a name, which are not part of it.
    [(shown, address)] = getaddresses([message_from_bytes(composed.data)["From"]])
    assert (str(make_header(decode_header(shown))), address) == (" ".join(name.split()), "desk@example.com")
    if shown.count("=?") < 2:
        assert message["From"].addresses == (Address(" ".join(name.split()), "desk", "example.com"),)
    assert message["X-Note"] == value
    sound(composed)


@given(when=st.datetimes(min_value=datetime(1971, 1, 1), max_value=datetime(9998, 12, 31)))
def test_dates_read_as_they_were_given(when: datetime) -> None:
    composed = compose(options={"date": when.isoformat() + "+00:00"})
    assert read(composed.data)["Date"] == format_datetime(when).replace("-0000", "+0000")


def sound(composed: Composed) -> None:
    """The rules that every message keeps."""
    assert composed.data.isascii()
    assert composed.data.endswith(b"\r\n")
    assert not bare(composed.data)
    assert not defects(read(composed.data))
    head, _, _ = composed.data.partition(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        assert line.strip()
        assert len(line) <= (76 if b"=?" in line else 998)
    assert max(map(len, composed.data.split(b"\r\n"))) <= 998

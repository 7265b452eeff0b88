"""Faults of users: each has one fault, which names the field, says what to change, and quotes nothing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.shared.mail.composer import Composer
from channels.shared.mail.errors import MailFault
from channels.shared.mail.settings import MailSettings
from tests.channels.shared.mail.mailbox import bare, compose, envelope, read

SECRET = "Content-9c41"
MEGABYTE = 1_000_000

FIELDS: dict[str, tuple[dict[str, Any], str]] = {
    "no subject": ({"subject": None}, "subject: is missing or empty"),
    "an empty subject": ({"subject": " \r\n "}, "subject: is missing or empty"),
    "a bell in a subject": ({"subject": f"{SECRET}\x07"}, r"subject: has a control character \(U\+0007\)"),
    "a NUL in a subject": ({"subject": f"{SECRET}\0"}, r"subject: has a control character \(U\+0000\)"),
    "half a pair in a subject": ({"subject": f"{SECRET}\udc80"}, "subject: has half of a surrogate pair"),
    "an endless subject": ({"subject": SECRET * 1_000}, "subject: has more than 2000 characters"),
    "a NUL in a text": ({"text": f"{SECRET}\0"}, "text: has a NUL character"),
    "a NUL in an html": ({"html": f"<p>{SECRET}\0"}, "html: has a NUL character"),
    "half a pair in a text": ({"text": f"{SECRET}\ud800"}, "text: has half of a surrogate pair"),
    "half a pair in an html": ({"text": None, "html": f"{SECRET}\ud800"}, "html: has half of a surrogate pair"),
    "30 MB of text": ({"text": SECRET * 2_500_000}, "text: is too large: a message has 20971520 bytes at the most"),
    "30 MB of html": ({"html": SECRET * 2_500_000}, "html: is too large"),
    "18 MB that become more": ({"text": "äöü" * 3 * MEGABYTE}, "message: is too large"),
    "nothing to read": ({"text": None}, "template: has neither a text nor an html"),
}

OPTIONS: dict[str, tuple[dict[str, Any], str]] = {
    "cc": ({"cc": SECRET}, r"options\.cc: a delivery goes to one recipient"),
    "bcc": ({"bcc": SECRET}, r"options\.bcc: a delivery goes to one recipient"),
    "to": ({"to": SECRET}, r"options\.to: the recipient is the delivery's own"),
    "a sender of two": ({"from": "a@example.org, b@example.org"}, r"options\.from: has a comma"),
    "a sender with lines": ({"from": "a@example.org\r\nBcc: x@y.org"}, r"options\.from: has a control character"),
    "no text as a sender": ({"from": {"a": 1}}, r"options\.from: is not a text"),
    "a reply to nobody": ({"reply_to": ""}, r"options\.reply_to: is empty"),
    "replies to a crowd": ({"reply_to": ["a@b.org"] * 11}, r"options\.reply_to: has more than 10 addresses"),
    "headers in a list": ({"headers": [SECRET]}, r"options\.headers: is not an object"),
    "many headers": ({"headers": {f"X-{n}": "1" for n in range(51)}}, r"options\.headers: has more than 50 names"),
    "a header's name with lines": ({"headers": {f"X-A\r\nBcc: {SECRET}\r\nX-B": "1"}}, r"options\.headers: has a name"),
    "a header's name with a colon": ({"headers": {"X-A: 1": "1"}}, r"options\.headers: has a name"),
    "an empty header's name": ({"headers": {"": "1"}}, r"options\.headers: has a name"),
    "a foreign header's name": ({"headers": {"X-Ä": "1"}}, r"options\.headers: has a name"),
    "a header's value with lines": ({"headers": {"X-A": f"1\r\nBcc: {SECRET}"}}, r"options\.headers\.X-A: has a line"),
    "a header's value with an end": ({"headers": {"X-A": f"{SECRET}\n"}}, r"options\.headers\.X-A: has a line break"),
    "a header's value with a CR": ({"headers": {"X-A": f"1\rBcc: {SECRET}"}}, r"options\.headers\.X-A: has a line"),
    "a header's value with a NUL": ({"headers": {"X-A": f"{SECRET}\0"}}, r"options\.headers\.X-A: has a control"),
    "a number in a header": ({"headers": {"X-A": 1}}, r"options\.headers\.X-A: is not a text"),
    "an empty header": ({"headers": {"X-A": " "}}, r"options\.headers\.X-A: is empty"),
    "a header twice": ({"headers": {"X-A": "1", "x-a": "2"}}, r"options\.headers\.x-a: is there twice"),
    "a header of ours": ({"headers": {"message-id": "<a@b>"}}, r"options\.headers\.message-id: is not a header that"),
    "a blind copy": ({"headers": {"Bcc": "x@example.org"}}, r"options\.headers\.Bcc: is not a header that may be set"),
    "a content type": ({"headers": {"Content-Type": "x/y"}}, r"options\.headers\.Content-Type: is not a header"),
    "a sender as header": ({"headers": {"From": "x@y.org"}}, r"options\.headers\.From: is not set here; use options"),
    "a guess": ({"headers": {"Auto-Submitted": "yes"}}, r"options\.headers\.Auto-Submitted: is none of"),
    "no message id": ({"headers": {"In-Reply-To": "x"}}, r"options\.headers\.In-Reply-To: is not a list of message"),
    "no link": ({"headers": {"List-Help": "x"}}, r"options\.headers\.List-Help: is not one link"),
    "an insecure link": ({"list_unsubscribe": "http://example.org/u"}, r"options\.list_unsubscribe: is not a https"),
    "a link with lines": ({"list_unsubscribe": "https://a.org/\r\nX: y"}, r"options\.list_unsubscribe: has a sign"),
    "a link that ends": ({"list_unsubscribe": "https://a.org/>,<x"}, r"options\.list_unsubscribe: has a sign"),
    "an endless link": ({"list_unsubscribe": "https://a.org/" + "x" * 900}, r"options\.list_unsubscribe: has more"),
    "no date": ({"date": SECRET}, r"options\.date: is not a time with its offset"),
    "a date without its zone": ({"date": "2026-01-31T09:30:00"}, r"options\.date: is not a time with its offset"),
    "a date at the end of time": ({"date": "9999-12-31T23:59:59-12:00"}, r"options\.date: is not a time"),
    "a number as a date": ({"date": 7}, r"options\.date: is not a time"),
}

FILES: dict[str, tuple[Any, str]] = {
    "no list": ({"name": "a"}, ": is not a list"),
    "a crowd": ([{"name": "a", "content": ""}] * 21, ": has more than 20 files"),
    "no object": ([SECRET], r"\[0\]: is not an object"),
    "no name": ([{"content": ""}], r"\[0\]\.name: is missing"),
    "an empty name": ([{"name": " ", "content": ""}], r"\[0\]\.name: is empty"),
    "a name with lines": ([{"name": f"a\r\n\r\n{SECRET}", "content": ""}], r"\[0\]\.name: has a control character"),
    "a name with half a pair": ([{"name": "\ud800", "content": ""}], r"\[0\]\.name: has half of a surrogate pair"),
    "a name with a folder": ([{"name": "../a", "content": ""}], r"\[0\]\.name: has a slash"),
    "an endless name": ([{"name": "a" * 201, "content": ""}], r"\[0\]\.name: has more than 200 characters"),
    "no content": ([{"name": "a"}], r"\[0\]\.content: is missing"),
    "no base64": ([{"name": "a", "content": SECRET}], r"\[0\]\.content: is not base64"),
    "no ASCII": ([{"name": "a", "content": "ä"}], r"\[0\]\.content: is not base64"),
    "a number": ([{"name": "a", "content": 7}], r"\[0\]\.content: is not a text in base64"),
    "nothing loaded": ([{"name": "a", "object": "b"}], r"\[0\]\.object: names a stored object"),
    "a type with lines": ([{"name": "a", "type": "a/b\r\nX: y", "content": ""}], r"\[0\]\.type: is not a media type"),
    "a type of many parts": ([{"name": "a", "type": "multipart/mixed", "content": ""}], r"\[0\]\.type: cannot be"),
    "30 MB": ([{"name": "a", "content": b"x" * 30 * MEGABYTE}], r"\[0\]: is too large"),
    "30 MB in three": ([{"name": "a", "content": b"x" * 10 * MEGABYTE}] * 3, r"\[1\]: is too large"),
}


@pytest.mark.parametrize(("fields", "words"), FIELDS.values(), ids=list(FIELDS))
def test_a_faulty_part_is_refused(fields: dict[str, Any], words: str) -> None:
    refused(words, **fields)


@pytest.mark.parametrize(("options", "words"), OPTIONS.values(), ids=list(OPTIONS))
def test_a_faulty_option_is_refused(options: dict[str, Any], words: str) -> None:
    refused(words, options=options)


@pytest.mark.parametrize("option", ["attachments", "inline"])
@pytest.mark.parametrize(("files", "words"), FILES.values(), ids=list(FILES))
def test_a_faulty_file_is_refused(files: Any, words: str, option: str) -> None:
    if option == "inline" and isinstance(files, list) and all(isinstance(one, dict) for one in files):
        if words == r"\[0\]\.name: is missing":
            return
        files = [one | {"cid": f"c{index}"} for index, one in enumerate(files)]
    refused(rf"options\.{option}{words}", options={option: files}, html="<p>x</p>")


@pytest.mark.parametrize("cid", [None, "", "a b", "a>\r\nX: y", "<a>", "ä", 7])
def test_an_image_needs_an_id_that_can_stand_in_a_header(cid: Any) -> None:
    refused(r"options\.inline\[0\]\.cid: is not", options={"inline": [{"cid": cid, "content": ""}]}, html="<p>x</p>")


def test_images_need_ids_of_their_own_and_an_html_that_shows_them() -> None:
    images = [{"cid": "a", "content": ""}] * 2
    refused(r"options\.inline\[1\]\.cid: is there twice", options={"inline": images}, html="<p>x</p>")
    refused(r"options\.inline: needs an html part", options={"inline": images})


def refused(words: str, **given: Any) -> None:
    """It has one fault, and nothing of it is repeated."""
    with pytest.raises(MailFault, match=f"^{words}") as caught:
        compose(**given)
    assert SECRET not in str(caught.value)
    assert "\n" not in str(caught.value)
    assert ";" in caught.value.args[1]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sender": "shop"}, "from: has no @"),
        ({"reply_to": "x"}, "reply_to: has no @"),
        ({"return_path": "x"}, "return_path: has no @"),
        ({"message_id_domain": "a b"}, "message_id_domain: is not the name"),
    ],
)
def test_a_faulty_setting_is_found_before_any_delivery(given: dict[str, Any], words: str) -> None:
    with pytest.raises(MailFault, match=f"^{words}"):
        MailSettings(**given)


hostile = st.text(st.characters() | st.sampled_from('\r\n\0:<>,;"\\=?. \t\x0b\x0c\x1c\x85\u2028'), max_size=60)


@given(fields=st.fixed_dictionaries({"subject": hostile, "text": hostile, "html": hostile}), recipient=hostile)
def test_no_text_becomes_a_header_or_a_second_message(fields: dict[str, str], recipient: str) -> None:
    for to in ("ann@example.net", recipient):
        held_together(envelope(to, None, **fields), set())


@given(
    name=hostile,
    value=hostile,
    sender=hostile,
    file=hostile,
)
def test_no_option_becomes_a_header_or_a_second_message(name: str, value: str, sender: str, file: str) -> None:
    attached = {"name": file, "content": ""}
    for options in (
        {"headers": {name: "1"}},
        {"headers": {f"X-{name}": value}},
        {"headers": {"X-A": value, "In-Reply-To": f"<{value}@x>"}},
        {"from": f"{sender} <a@b.org>"},
        {"from": sender, "reply_to": value},
        {"list_unsubscribe": f"https://example.org/{value}"},
        {"attachments": [attached]},
        {"attachments": [attached | {"name": "a", "type": value}]},
        {"inline": [attached | {"cid": value}]},
        {"date": value},
    ):
        held_together(
            envelope(options=options, html="<p>x</p>"), {"x-a", "in-reply-to", name.lower(), f"x-{name.lower()}"}
        )


OURS = "date from reply-to to subject message-id mime-version auto-submitted list-unsubscribe list-unsubscribe-post"
EXPECTED = {*OURS.split(), "content-type", "content-transfer-encoding"}


def held_together(one: Any, custom: set[str]) -> None:
    """It is refused, or one message with no header but those that were asked for."""
    try:
        data = Composer(MailSettings(sender="shop@example.org")).compose(one).data
    except MailFault:
        return
    message = read(data)
    assert not bare(data)
    assert {name.lower() for name in message.keys()} <= EXPECTED | custom  # noqa: SIM118 - a message is no dict
    assert len(message.keys()) == len({name.lower() for name in message.keys()})  # noqa: SIM118 - as above
    assert len(list(message.walk())) == 1 + len(list(message.iter_parts())) + sum(
        len(list(part.iter_parts())) for part in message.iter_parts()
    )

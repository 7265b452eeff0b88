"""The composer's messages: what stands in them, and that the same delivery is the same bytes."""

import base64
from typing import Any

import pytest
from msgspec import structs

from channels.shared.mail.composer import Composer
from channels.shared.mail.errors import MailFault
from channels.shared.mail.settings import MailSettings
from tests.channels.shared.mail.mailbox import SETTINGS, bare, compose, content, defects, envelope, read

HTML = '<p>Thank <b>you</b>, <a href="https://example.org/o/7">look</a>.</p>'
PNG = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


def test_text_and_html_are_alternatives_with_the_text_first() -> None:
    message = read(compose(text="Thank you.\n", html=HTML).data)
    assert message.get_content_type() == "multipart/alternative"
    assert [part.get_content_type() for part in message.iter_parts()] == ["text/plain", "text/html"]
    assert [content(part) for part in message.iter_parts()] == ["Thank you.\n", f"{HTML}\n"]
    assert not defects(message)


def test_the_headers_have_sender_recipient_subject_date_and_auto_submitted() -> None:
    composed = compose(options={"reply_to": ["help@example.org", "Ben B. <ben@example.org>"]})
    message = read(composed.data)
    assert message["From"] == "Shop <shop@example.org>"
    assert message["To"] == "ann@example.net"
    assert message["Subject"] == "An order"
    assert message["Reply-To"] == 'help@example.org, "Ben B." <ben@example.org>'
    assert message["Date"].datetime.timestamp() == 1_767_225_600
    assert message["Auto-Submitted"] == "auto-generated"
    assert message["Message-ID"].endswith("@example.org>")
    assert (composed.sender, composed.recipient, composed.domain) == (
        "shop@example.org",
        "ann@example.net",
        "example.net",
    )
    assert (composed.eight_bit, composed.smtputf8) == (False, False)
    assert not defects(message)


def test_a_text_is_made_of_the_html_where_none_is_given_and_only_then() -> None:
    text, html = read(compose(text=None, html=HTML).data).iter_parts()
    assert (content(text), content(html)) == ("Thank you, look (https://example.org/o/7).\n", f"{HTML}\n")
    alone = Composer(structs.replace(SETTINGS, text_from_html=False)).compose(envelope(text=None, html=HTML))
    assert read(alone.data).get_content_type() == "text/html"
    assert read(compose().data).get_content_type() == "text/plain"


def test_files_and_images_stand_where_readers_look_for_them() -> None:
    files: dict[str, Any] = {
        "attachments": [
            {"name": "Größe.pdf", "content": base64.b64encode(PNG).decode()},
            {"name": "b", "content": PNG},
        ],
        "inline": [{"cid": "logo", "type": "image/png", "content": PNG, "name": "logo.png"}],
    }
    message = read(compose(options=files, html='<img src="cid:logo">').data)
    shown, first, second = message.iter_parts()
    text, related = shown.iter_parts()
    html, logo = related.iter_parts()
    assert [part.get_content_type() for part in (message, shown, text, related, html, logo, first, second)] == [
        "multipart/mixed",
        "multipart/alternative",
        "text/plain",
        "multipart/related",
        "text/html",
        "image/png",
        "application/pdf",
        "application/octet-stream",
    ]
    assert [content(part) for part in (logo, first, second)] == [PNG, PNG, PNG]
    assert [part.get_filename() for part in (logo, first, second)] == ["logo.png", "Größe.pdf", "b"]
    assert logo["Content-ID"] == "<logo>"
    assert not defects(message)


def test_the_same_delivery_is_the_same_bytes_in_every_process_and_attempt() -> None:
    options = {"attachments": [{"name": "a", "content": "YQ=="}], "headers": {"X-A": "1"}}
    one = envelope(options=options, html=HTML)
    first = Composer(SETTINGS).compose(one)
    again = Composer(SETTINGS)
    again.compose(envelope(number=8))
    assert again.compose(structs.replace(one, attempt=4)) == first


def test_each_delivery_has_a_message_id_of_its_own() -> None:
    one = envelope()
    others = [
        structs.replace(one, **change)
        for change in (
            {},
            {"delivery_id": 8},
            {"tenant_id": "u"},
            {"workspace_id": "v"},
            {"idempotency_key": "k"},
            {"dated": 1},
            {"recipient": "ben@example.net"},
        )
    ]
    composer = Composer(SETTINGS)
    ids = {read(composer.compose(other).data)["Message-ID"] for other in others}
    assert len(ids) == len(others)


def test_one_click_unsubscription_is_offered_as_its_rfc_says() -> None:
    message = read(compose(options={"list_unsubscribe": "https://example.org/u/abc?x=1"}).data)
    assert message["List-Unsubscribe"] == "<https://example.org/u/abc?x=1>"
    assert message["List-Unsubscribe-Post"] == "List-Unsubscribe=One-Click"


def test_a_date_in_the_options_comes_before_the_deliverys_own() -> None:
    message = read(compose(options={"date": "2026-01-31T09:30:00+01:00"}).data)
    assert message["Date"] == "Sat, 31 Jan 2026 08:30:00 +0000"


def test_bounces_go_where_the_settings_say() -> None:
    settings = MailSettings(
        sender="shop@example.org", return_path="bounces@example.com", message_id_domain="id.example"
    )
    composed = Composer(settings).compose(envelope())
    assert composed.sender == "bounces@example.com"
    assert b"@id.example>" in composed.data


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n", "\n\r"])
def test_nothing_bare_is_left_of_any_line_end(end: str) -> None:
    smuggled = f"one{end}.{end}MAIL FROM:<x@example.org>{end}"
    composed = compose(text=smuggled, html=smuggled, subject=f"a{end}Bcc: x@example.org")
    assert not bare(composed.data)
    message = read(composed.data)
    assert message["Bcc"] is None
    assert message["Subject"] == "a Bcc: x@example.org"
    assert not defects(message)


def test_a_boundary_cannot_be_predicted_by_a_text() -> None:
    boundary = read(compose(html="<p>x</p>").data).get_boundary()
    forged = f"--{boundary}\nContent-Type: text/html\n\n<script>\n--{boundary}--\n"
    message = read(compose(text=forged, html="<p>x</p>").data)
    assert message.get_boundary() == boundary
    assert [content(part) for part in message.iter_parts()] == [forged, "<p>x</p>\n"]


def test_a_sender_in_the_options_comes_first_and_one_has_to_be_there() -> None:
    assert read(compose(options={"from": "Desk <desk@example.com>"}).data)["From"] == "Desk <desk@example.com>"
    nobody = Composer(MailSettings())
    with pytest.raises(MailFault, match=r"^options\.from: is missing"):
        nobody.compose(envelope())
    assert nobody.compose(envelope(options={"from": "desk@example.com"})).sender == "desk@example.com"

"""Properties of what the Resend channel makes of an envelope, and of its options."""

import json
from base64 import b64encode
from typing import Any

import msgspec
import pytest
from msgspec import structs

from channels.contract import Envelope
from channels.registry import PROVIDERS
from channels.resend import message as module
from channels.resend.message import Messages, batch_key
from channels.resend.options import ResendOptions
from channels.shared.mail.errors import MailFault
from channels.shared.web.client import delivery_key
from dispatcher.base.errors import ConfigError
from dispatcher.config import load, show
from dispatcher.config.settings import Config
from tests.channels.resend.fake import KEY
from tests.channels.shared.mail.mailbox import envelope as an_envelope

OPTIONS = ResendOptions(api_key=KEY, sender="Shop <shop@example.net>", reply_to="help@example.net")
FILE = {"name": "größe.txt", "content": b64encode(b"x").decode()}


@pytest.fixture
def envelope() -> Envelope:
    """One delivery's."""
    return an_envelope()


def made(envelope: Envelope, channel: ResendOptions = OPTIONS, **changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Messages(channel).make(structs.replace(envelope, **changes)).data)
    return found


def fault(envelope: Envelope, channel: ResendOptions = OPTIONS, **changes: Any) -> str:
    with pytest.raises(MailFault) as caught:
        made(envelope, channel, **changes)
    return str(caught.value)


def test_everything_has_its_place(envelope: Envelope) -> None:
    message = made(
        envelope,
        recipient="Zoë Ångström <zoe@bücher.example>",
        parts={"subject": " Größe\n", "text": "Hello.", "html": "<p>Hello.</p>"},
        options={
            "from": '"Lamps, Ltd." <lamps@example.net>',
            "reply_to": ["a@example.net", "B <b@example.net>"],
            "headers": {"X-Order": "17", "References": "<1@example.org> <2@example.org>"},
            "list_unsubscribe": "https://example.org/u/1",
            "tags": {"order": "17"},
            "attachments": [FILE, {"name": "b.pdf", "content": b"%PDF"}],
            "inline": [{"cid": "logo", "type": "image/png", "content": "eA=="}],
        },
    )
    assert message == {
        "from": '"Lamps, Ltd." <lamps@example.net>',
        "to": ["Zoë Ångström <zoe@xn--bcher-kva.example>"],
        "subject": "Größe",
        "text": "Hello.",
        "html": "<p>Hello.</p>",
        "reply_to": ["a@example.net", "B <b@example.net>"],
        "headers": {
            "Auto-Submitted": "auto-generated",
            "X-Order": "17",
            "References": "<1@example.org> <2@example.org>",
            "List-Unsubscribe": "<https://example.org/u/1>",
            "List-Unsubscribe-Post": "List-Unsubscribe=One-Click",
        },
        "tags": [
            {"name": "delivery", "value": str(envelope.delivery_id)},
            {"name": "order", "value": "17"},
        ],
        "attachments": [
            {"filename": "größe.txt", "content_type": "text/plain", "content": "eA=="},
            {"filename": "b.pdf", "content_type": "application/pdf", "content": "JVBERg=="},
            {"filename": "logo", "content_type": "image/png", "content": "eA==", "content_id": "logo"},
        ],
    }


def test_the_channel_s_sender_and_reply_address_stand_in(envelope: Envelope) -> None:
    message = made(envelope)
    assert (message["from"], message["reply_to"]) == ("Shop <shop@example.net>", ["help@example.net"])
    assert "attachments" not in message


def test_the_same_delivery_is_the_same_bytes_on_every_attempt(envelope: Envelope) -> None:
    options = {"headers": {"X-B": "1", "X-A": "2"}, "tags": {"b": "1", "a": "2"}}
    first = structs.replace(envelope, options=options)
    messages = [Messages(OPTIONS).make(structs.replace(first, attempt=attempt)).data for attempt in (1, 2)]
    assert messages[0] == messages[1]
    assert delivery_key(first) == delivery_key(structs.replace(first, attempt=2))


def test_a_name_cannot_become_another_address(envelope: Envelope) -> None:
    message = made(envelope, recipient='"Ann <eve@example.org>, Bob" <ann@example.org>')
    assert message["to"] == ['"Ann <eve@example.org>, Bob" <ann@example.org>']


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"recipient": ""}, "recipient"),
        ({"recipient": "ann"}, "recipient"),
        ({"recipient": "ann@example.org, eve@example.org"}, "recipient"),
        ({"recipient": "ann@example.org\r\nBcc: eve@example.org"}, "recipient"),
        ({"recipient": "ann@" + "x" * 70 + ".example"}, "recipient"),
        ({"parts": {"text": "x"}}, "subject"),
        ({"parts": {"subject": "\n", "text": "x"}}, "subject"),
        ({"parts": {"subject": "a\0b", "text": "x"}}, "subject"),
        ({"parts": {"subject": "a\ud800", "text": "x"}}, "subject"),
        ({"parts": {"subject": "a"}}, "template"),
        ({"parts": {"subject": "a", "text": "", "html": ""}}, "template"),
        ({"parts": {"subject": "a", "text": "\0"}}, "text"),
        ({"parts": {"subject": "a", "html": "\udfff"}}, "html"),
        ({"options": {"from": "x"}}, "options.from"),
        ({"options": {"from": 3}}, "options.from"),
        ({"options": {"reply_to": ["a@example.org", None]}}, "options.reply_to"),
        ({"options": {"cc": "a@example.org"}}, "options.cc"),
        ({"options": {"bcc": "a@example.org"}}, "options.bcc"),
        ({"options": {"headers": {"Bcc": "eve@example.org"}}}, "options.headers.Bcc"),
        ({"options": {"headers": {"X-A\r\nBcc": "eve@example.org"}}}, "options.headers"),
        ({"options": {"headers": {"X-A": "a\r\nBcc: eve@example.org"}}}, "options.headers.X-A"),
        ({"options": {"list_unsubscribe": "http://example.org"}}, "options.list_unsubscribe"),
        ({"options": {"list_unsubscribe": "https://e.org/>,<https://f.org"}}, "options.list_unsubscribe"),
        ({"options": {"tags": {"a b": "1"}}}, "options.tags"),
        ({"options": {"tags": {"a": "ö"}}}, "options.tags"),
        ({"options": {"tags": {"a": 1}}}, "options.tags"),
        ({"options": {"tags": {"delivery": "1"}}}, "options.tags"),
        ({"options": {"tags": ["a"]}}, "options.tags"),
        ({"options": {"attachments": "x"}}, "options.attachments"),
        ({"options": {"attachments": [{"name": "a/b", "content": ""}]}}, "options.attachments[0].name"),
        ({"options": {"attachments": [FILE, {"name": "a"}]}}, "options.attachments[1].content"),
        ({"options": {"attachments": [{"name": "a", "content": "!"}]}}, "options.attachments[0].content"),
        ({"options": {"attachments": [{"name": "a", "object": "b"}]}}, "options.attachments[0].object"),
        ({"options": {"inline": [{"cid": "a b", "content": ""}]}}, "options.inline[0].cid"),
    ],
)
def test_faults_of_an_object_are_named_without_repeating_values(
    envelope: Envelope, changes: dict[str, Any], field: str
) -> None:
    reason = fault(envelope, **changes)
    assert reason.startswith(f"{field}: ")
    assert reason.isprintable()
    assert "eve@example.org" not in reason


def test_without_any_sender_it_says_where_to_name_one(envelope: Envelope) -> None:
    assert "name a sender" in fault(envelope, ResendOptions(api_key=KEY))


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"parts": {"subject": "a", "html": "x" * 3_000}}, "html"),
        ({"parts": {"subject": "a", "html": "x" * 1_900}}, "message"),
        ({"options": {"attachments": [FILE, {"name": "a", "content": "eHh4" * 500}]}}, "options.attachments[1]"),
        ({"options": {"attachments": [{"name": "a", "content": "eHh4" * 300}] * 2}}, "options.attachments[1]"),
    ],
)
def test_a_too_large_value_is_named(
    envelope: Envelope, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], field: str
) -> None:
    monkeypatch.setattr(module, "MESSAGE_BYTES_MAX", 2_000)
    assert fault(envelope, **changes).startswith(f"{field}: is too large")


def test_a_key_is_one_delivery_s_and_fits_a_header(envelope: Envelope) -> None:
    """Ours is unique in tenant and workspace; theirs is for the whole account."""
    others = [
        structs.replace(envelope, tenant_id="other"),
        structs.replace(envelope, workspace_id="other"),
        structs.replace(envelope, idempotency_key="other"),
        structs.replace(envelope, tenant_id="a|b", workspace_id="c"),
        structs.replace(envelope, tenant_id="a", workspace_id="b|c"),
        structs.replace(envelope, idempotency_key="ö\r\n" * 500),
    ]
    keys = [delivery_key(one) for one in (envelope, *others)]
    assert len(set(keys)) == len(keys)
    assert all(key.isascii() and key.isprintable() and len(key) <= 256 for key in keys)
    assert delivery_key(structs.replace(envelope, delivery_id=0, attempt=7)) == keys[0]
    assert len({batch_key([envelope, others[0]]), batch_key([others[0], envelope]), keys[0]}) == 3


# Options


def options(**given: object) -> ResendOptions:
    return msgspec.convert({"api_key": KEY} | given, ResendOptions)


def configured(**given: str) -> Config:
    channel = {"PROVIDER": "resend"} | {f"OPTIONS__{name.upper()}": value for name, value in given.items()}
    environ = {f"DISPATCHER_CHANNELS__EMAIL__{name}": value for name, value in channel.items()}
    return load(None, environ, PROVIDERS)


@pytest.mark.parametrize(
    ("url", "good"),
    [
        ("https://api.resend.com", True),
        ("https://mail.example.org:8443/v1/", True),
        ("http://127.0.0.1:8080", True),
        ("http://localhost", True),
        ("http://[::1]:8080", True),
        ("http://api.resend.com", False),
        ("http://127.0.0.1.example.org", False),
        ("http://localhost.example.org", False),
        ("http://127.0.0.1@example.org", False),
        ("https://user:password@example.org", False),
        ("https://example.org/?x=1", False),
        ("https://example.org\n", False),
        ("ftp://example.org", False),
        ("", False),
    ],
)
def test_plain_http_goes_to_this_machine_only(url: str, good: bool) -> None:
    if good:
        assert options(url=url).base_url == url.rstrip("/")
    else:
        with pytest.raises(msgspec.ValidationError):
            options(url=url)


def test_plain_http_to_another_machine_has_to_be_named() -> None:
    assert options(insecure_url="http://mail.example.org").base_url == "http://mail.example.org"


@pytest.mark.parametrize("key", ["", "a b", "a\r\nX-B: c", "ö", "x" * 256])
def test_a_key_cannot_be_two_headers(key: str) -> None:
    with pytest.raises(msgspec.ValidationError):
        options(api_key=key)


@pytest.mark.parametrize("address", ["shop", "shop@example.org\r\nBcc: eve@example.org", "a@b, c@d"])
def test_an_invalid_address_is_a_fault_of_the_configuration(address: str) -> None:
    for field in ("from", "reply_to"):
        with pytest.raises(msgspec.ValidationError, match=f"{field}: "):
            options(**{field: address})


def test_the_key_is_required_and_never_shown() -> None:
    with pytest.raises(ConfigError) as missing:
        configured()
    assert "channels.email.options.api_key" in str(missing.value)
    config = configured(api_key=KEY, **{"from": "shop@example.org"})
    shown = json.dumps(show(config, PROVIDERS))
    assert KEY not in shown
    assert "shop@example.org" in shown
    with pytest.raises(ConfigError) as faulty:
        configured(api_key=KEY + " ")
    assert KEY not in str(faulty.value)

"""Staging as pure rules: by no provider and in no disguise does a message reach anybody but the chosen ones."""

import itertools
from collections.abc import Mapping
from email.utils import getaddresses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.contract import Envelope
from channels.registry import PROVIDERS
from channels.shared.mail.composer import Composer
from channels.shared.mail.errors import MailFault
from channels.shared.mail.settings import MailSettings
from dispatcher.base.values.staging import BY_RECIPIENT, REDIRECTED, read_allow_list, read_redirects
from dispatcher.config.settings import CHANNELS
from dispatcher.engine.rules.staging import ENDPOINTS, LEFT_OUT, Message, Staging
from tests.channels.mailbox import parsed

ALLOWED = "qa@example.org @test.example +4915550000001 device-1 https://hooks.test.example/in bill"
REDIRECT = "email=sink@example.org sms=+4915550000009 chat=room"
STAGING = Staging.of(ALLOWED, REDIRECT)
STRICT = Staging.of(ALLOWED, "")
CHOSEN = frozenset(["qa@example.org", "+4915550000001", "device-1", "bill", "https://hooks.test.example/in"])
SINKS = frozenset({"sink@example.org", "+4915550000009", "room"})
LEAKS: Mapping[str, Any] = {
    "cc": "ann@real.example",
    "bcc": ["ann@real.example"],
    "to": "ann@real.example",
    "recipients": ["ann@real.example"],
    "headers": {"X-SMTPAPI": '{"to": ["ann@real.example"]}', "Bcc": "ann@real.example"},
    "webhook": {"id": 1, "url": "https://hooks.test.example/in", "secrets": []},
}
PARTS = {"subject": "Order 7", "text": "Hello", "body": "Hello"}


def _message(
    channel: str, recipient: str, staging: Staging = STAGING, provider: str = "smtp", **options: Any
) -> Message | None:
    return staging.message(channel, provider, Message(recipient, PARTS, options))


def _is_chosen(recipient: str) -> bool:
    local, at, domain = recipient.rpartition("@")
    return recipient in CHOSEN or (domain == "test.example" and at == "@" and "@" not in local)


# Real people, and disguises that one reader may take for a chosen recipient and another for somebody else.
STRANGERS = (
    "ann@real.example",
    "qa@example.org <ann@real.example>",
    '"qa@example.org" <ann@real.example>',
    "ann@real.example, qa@example.org",
    "ann@real.example;qa@example.org",
    "ann@real.example(qa@example.org)",
    "qa@example.org@real.example",
    "qa@example.org\r\nBcc: ann@real.example",
    "qa@example.org\0@real.example",
    "qa@example.org.real.example",
    "ann@sub.test.example",
    "ann@test.example.real.example",
    "ann%real.example@test.example",
    "real.example!ann@test.example",
    '"ann@real.example"@test.example',
    "ann@real.example>@test.example",
    "<@test.example:ann@real.example>",
    "@test.example",
    "channel:email",
    "+4915550000001, +4917012345",
    "+49155500000011",
    "+4917012345",
    "whatsapp:+4917012345",
    "device-2",
    "device-1,device-2",
    "https://hooks.test.example/in/../out",
    "bill2",
    "",
    " ",
    "x" * 600,
)


@pytest.mark.parametrize("provider", [*sorted(PROVIDERS), "mastodon", "another"])
@pytest.mark.parametrize("channel", [*CHANNELS, "pager"])
@pytest.mark.parametrize("staging", [STAGING, STRICT], ids=["redirects", "skips"])
def test_no_stranger_gets_anything_by_any_channel(channel: str, provider: str, staging: Staging) -> None:
    for recipient in STRANGERS:
        found = staging.message(channel, provider, Message(recipient, PARTS, LEAKS))
        if provider == ENDPOINTS:
            # Its option is made by the dispatcher, and says where it goes.
            assert found is not None
            continue
        assert found is None or found.recipient in SINKS, recipient
        assert found is None or (found.is_redirected and provider in REDIRECTED and channel in staging.redirects)
        assert found is None or not (LEFT_OUT - {"headers"}) & found.options.keys()
        assert found is None or set(found.options.get("headers", {})) <= {"X-Original-To"}


@pytest.mark.parametrize("provider", sorted(BY_RECIPIENT))
@pytest.mark.parametrize(
    ("channel", "recipient", "sent"),
    [
        ("email", "qa@example.org", "qa@example.org"),
        ("email", "Quality <QA@Example.org>", "qa@example.org"),
        ("email", "Bob.Jones+x@TEST.example", "bob.jones+x@test.example"),
        ("sms", "0049 (0)1555 0000001", "+4915550000001"),
        ("push", " device-1 ", "device-1"),
        ("http", "bill", "bill"),
        ("pager", "qa@example.org", "qa@example.org"),
    ],
)
def test_the_chosen_get_theirs_in_the_form_that_was_compared(
    provider: str, channel: str, recipient: str, sent: str
) -> None:
    found = STAGING.message(channel, provider, Message(recipient, PARTS, {**LEAKS, "reply_to": "shop@example.org"}))
    assert found is not None
    assert (found.recipient, found.parts, found.is_redirected) == (sent, PARTS, False)
    assert found.options == {"webhook": LEAKS["webhook"], "reply_to": "shop@example.org"}


def test_an_endpoint_is_chosen_by_its_whole_url() -> None:
    url = "https://hooks.test.example/in"
    for asked, goes in ((url, True), (f"{url}/", False), (f"{url}?x", False), ("https://real.example/in", False)):
        found = _message("webhook", "anything", STAGING, ENDPOINTS, webhook={"id": 1, "url": asked, "secrets": []})
        assert (found is not None) == goes
    # A number, before it is looked up, and what an application says of itself by another provider.
    assert _message("webhook", "bill", STAGING, ENDPOINTS, webhook=7) is None
    assert _message("email", "ann@real.example", STRICT, "smtp", webhook={"url": url}) is None


@given(st.text() | st.from_regex(r"[^@\n]{0,9}@[a-z.]{0,9}(test\.example|example\.org)?[^@]{0,9}"))
def test_what_a_mail_program_reads_is_what_was_compared(recipient: str) -> None:
    """Whatever the recipient: the mail that is composed goes to a chosen address, or to the one for all others."""
    for staging in (STAGING, STRICT):
        found = _message("email", recipient, staging, **LEAKS)
        if found is None:
            continue
        try:
            mail = Composer(MailSettings(sender="shop@example.org")).compose(_envelope(found))
        except MailFault:
            continue
        assert _is_chosen(mail.recipient) or mail.recipient in SINKS
        fields = [parsed(mail.data).get_all(name, []) for name in ("to", "cc", "bcc", "resent-to")]
        read = {address for _, address in getaddresses([str(one) for one in itertools.chain(*fields)])}
        assert read == {mail.recipient}


def _envelope(found: Message) -> Envelope:
    place = "default", "default", "key", "email"
    return Envelope(None, 1, *place, found.recipient, found.parts, found.options, 1)  # type: ignore[arg-type]  # not sent


def test_a_redirected_mail_names_whom_it_was_for() -> None:
    found = _message("email", "Ann <ann@real.example>")
    assert found is not None
    assert found.parts == PARTS | {"subject": "[staging, for Ann <ann@real.example>] Order 7"}
    mail = Composer(MailSettings(sender="shop@example.org")).compose(_envelope(found))
    assert parsed(mail.data)["x-original-to"] == "Ann <ann@real.example>"
    hostile = _message("email", "Zoë\r\nBcc: ann@real.example\0 <ann@real.example>")
    assert hostile is not None
    Composer(MailSettings(sender="shop@example.org")).compose(_envelope(hostile))


def test_other_messages_name_it_where_there_is_a_text() -> None:
    sms = STAGING.message("sms", "twilio", Message("+4917012345", {"body": "Hello"}, {}))
    assert sms is not None
    assert (sms.recipient, sms.parts["body"]) == ("+4915550000009", "[staging, for +4917012345] Hello")
    spoken = STAGING.message("sms", "twilio", Message("+4917012345", {"body": " <Response/>"}, {}))
    assert spoken is not None
    assert spoken.parts["body"] == " <Response/>"
    blocks = STAGING.message("chat", "slack", Message("sales", {"blocks": "[]"}, {}))
    assert blocks is not None
    assert (blocks.recipient, blocks.parts) == ("room", {"blocks": "[]"})


@pytest.mark.parametrize(
    ("verbs", "goes"),
    [
        ("<Say>Hello <emphasis>Ann</emphasis><break/></Say><Pause/><Hangup/>", True),
        ("<Dial>+4917012345</Dial>", False),
        ("<Say>Hello</Say><Dial><Number>+4917012345</Number></Dial>", False),
        ('<Sms to="+4917012345">Hello</Sms>', False),
        ("<Redirect>https://real.example/twiml</Redirect>", False),
        ('<Gather action="https://real.example/twiml"/>', False),
        ("<x:Dial>+4917012345</x:Dial>", False),
    ],
)
def test_a_call_to_the_chosen_calls_nobody_else(verbs: str, goes: bool) -> None:
    parts = {"body": f' <?xml version="1.0"?><Response>{verbs}</Response>'}
    for staging in (STAGING, Staging.of("", "voice=+4915550000001")):
        found = staging.message("voice", "twilio", Message("+4915550000001", parts, {}))
        assert (found is not None) == goes


def test_functions_and_posts_are_not_redirected() -> None:
    staging = Staging.of("", "http=sink social=sink")
    assert _message("http", "create-invoice", staging, "functions") is None
    assert _message("social", "sink", staging, "mastodon") is None
    # A post goes to whoever follows: no recipient makes it harmless.
    assert _message("social", "qa@example.org", STAGING, "mastodon") is None


def test_a_whole_channel_may_go_and_its_posts_mention_nobody() -> None:
    staging = Staging.of("channel:social channel:webhook channel:email", "")
    post = staging.message(
        "social", "mastodon", Message("", {"body": "Hello @ann@real.example"}, {"visibility": "direct"})
    )
    assert post is not None
    assert post.parts == {"body": "Hello \uff20ann\uff20real.example"}
    assert post.options == {"visibility": "direct"}
    mail = Message("Ann <ann@real.example>", PARTS, LEAKS)
    assert staging.message("email", "capture", mail) == mail
    assert _message("webhook", "x", staging, ENDPOINTS, webhook={"url": "https://real.example"}) is not None
    assert _message("sms", "+4917012345", staging, "twilio") is None


def test_the_words_of_a_configuration_are_read() -> None:
    found = read_allow_list("  QA@Example.org @Test.Example +49 1555 ".replace("+49 1555", "+491555") + "channel:sms u")
    assert found.recipients == {"qa@example.org", "+491555", "u"}
    assert found.domains == {"test.example"}
    assert found.channels == {"sms"}
    assert read_redirects("email=QA@x.example chat=room") == {"email": "qa@x.example", "chat": "room"}


@pytest.mark.parametrize("word", ["a b@", "a@b@c", "@", "@a!b", "+", "+12", "a%b@c.example", '"a"@c.example', "+49x"])
def test_a_word_that_could_be_read_in_two_ways_is_refused(word: str) -> None:
    with pytest.raises(ValueError, match="is not a"):
        read_allow_list(word.rsplit(maxsplit=1)[-1])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("email", "is not a channel and its recipient"),
        ("=x", "is not a channel and its recipient"),
        ("email=ann", "is not a mail address"),
        ("email=@example.org", "is not a mail address"),
        ("sms=4917012345", "is not a number"),
        ("email=a@b.example email=c@b.example", "has two recipients"),
    ],
)
def test_a_redirect_that_is_no_recipient_is_refused(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        read_redirects(text)

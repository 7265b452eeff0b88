"""Messages as the API takes them, and what is refused in words before any call."""

import json
from collections.abc import Mapping

import msgspec
import pytest
from msgspec import structs

from channels.contract import Accepted, Refused
from channels.registry import PROVIDERS
from channels.twilio.message import VALIDITY_SECONDS_MAX
from channels.twilio.options import TwilioOptions
from dispatcher.base.errors import ConfigError
from dispatcher.config import load, show
from dispatcher.config.settings import Config
from tests.channels.suite import NUMBER, Post
from tests.channels.twilio.conftest import RECEIVER, Opened, delivered
from tests.channels.twilio.fake import ACCOUNT, CONTENT, FROM, SECRET, SERVICE, FakeTwilio


async def _sent(fake: FakeTwilio, opened: Opened, post: Post, **options: object) -> Mapping[str, str]:
    (found,) = await delivered(opened(**options), await post.envelopes())
    assert isinstance(found, Accepted), found
    return fake.made[-1].fields


async def _refused(opened: Opened, post: Post, **options: object) -> str:
    (found,) = await delivered(opened(**options), await post.envelopes())
    assert isinstance(found, Refused), found
    assert not found.suppresses
    return found.reason


async def test_an_sms_has_a_text_a_sender_and_a_callback(fake: FakeTwilio, opened: Opened, post: Post) -> None:
    post.parts = {"body": "Grüße & more=1 +€"}
    (envelope,) = await post.envelopes()
    await delivered(opened(), [envelope])
    assert fake.made[0].fields == {
        "To": NUMBER,
        "From": FROM,
        "Body": "Grüße & more=1 +€",
        "StatusCallback": f"{RECEIVER.url}?delivery={envelope.delivery_id}",
    }


async def test_any_text_arrives_as_it_is(fake: FakeTwilio, opened: Opened, post: Post) -> None:
    for text in ("".join(map(chr, range(1, 127))), "%41%zz+ ;&=#?", "\u00a0é\u2028\N{GRINNING FACE}\r\n "):
        post.parts = {"body": text}
        assert (await _sent(fake, opened, post))["Body"] == text


@pytest.mark.parametrize(
    ("recipient", "number"),
    [("+49 155 5000-7341", NUMBER), (f" {NUMBER} ", NUMBER), ("004915550007341", NUMBER), ("+1.500.555.0006", FROM)],
)
async def test_a_number_is_written_as_people_do(
    recipient: str, number: str, fake: FakeTwilio, opened: Opened, post: Post
) -> None:
    post.recipient = recipient
    assert (await _sent(fake, opened, post))["To"] == number


@pytest.mark.parametrize(
    "recipient",
    ["015550007341", "4915550007341", "+49 (0)155 5000", "ann@example.org", "+0123456", "+", "whatsapp:+4917012", ""],
)
async def test_a_number_without_its_country_is_refused(
    recipient: str, fake: FakeTwilio, opened: Opened, post: Post
) -> None:
    post.recipient = recipient
    reason = await _refused(opened, post)
    assert reason.startswith("recipient: is not a number with its country: write +")
    assert not fake.requests


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"body": "x" * 1_700}, "body: has 1,700 characters, over the 1,600 that Twilio takes; shorten it"),
        ({"body": " \n"}, "body: is missing or empty; write a text"),
        ({"body": "a\0b"}, "body: has a control character"),
        ({"body": "\ud800"}, "body: has half a character"),
    ],
)
async def test_a_text_that_cannot_be_sent_is_refused(
    parts: dict[str, str], words: str, fake: FakeTwilio, opened: Opened, post: Post
) -> None:
    post.parts = parts
    assert (await _refused(opened, post)).startswith(words)
    assert not fake.requests


async def test_the_longest_text_is_sent(fake: FakeTwilio, opened: Opened, post: Post) -> None:
    post.parts = {"body": "ü" * 1_600}
    assert len((await _sent(fake, opened, post))["Body"]) == 1_600


# Senders


async def test_a_workspace_has_its_own_sender(fake: FakeTwilio, opened: Opened, post: Post) -> None:
    (envelope,) = await post.envelopes()
    mine = f"{envelope.tenant_id}/{envelope.workspace_id}"
    fields = await _sent(fake, opened, post, senders=f"acme/shop = {FROM}\n{mine} = {SERVICE}")
    assert fields["MessagingServiceSid"] == SERVICE
    assert "From" not in fields
    assert (await _sent(fake, opened, post, senders=f"acme/shop={SERVICE},acme/b=Shop"))["From"] == FROM


async def test_a_sender_is_needed(fake: FakeTwilio, opened: Opened, post: Post) -> None:
    assert (await _refused(opened, post, sender="")).startswith("options.from: is missing")
    for kind in ("whatsapp", "voice"):
        assert (await _refused(opened, post, sender="Shop", sends=kind)).startswith("options.from: is not a number")
    assert (await _refused(opened, post, sender=SERVICE, sends="voice")).startswith("options.from: is not a number")
    assert not fake.requests


async def test_what_is_sent_is_said_by_the_channel(fake: FakeTwilio, opened: Opened, post: Post) -> None:
    assert (await _refused(opened, post, sends="")).startswith("options.sends: is missing: name one of sms, whatsapp")
    channel = opened(sends="")
    for name, path in (("sms", "Messages"), ("whatsapp", "Messages"), ("voice", "Calls")):
        await delivered(channel, [structs.replace(one, channel=name) for one in await post.envelopes()])
        assert fake.made[-1].path.endswith(f"/{path}.json")


# Expiry


async def test_a_message_is_queued_no_longer_than_it_is_valid(fake: FakeTwilio, opened: Opened, post: Post) -> None:
    for at, seconds in ((100.9, 100), (10**9, VALIDITY_SECONDS_MAX), (0.5, 1)):
        (envelope,) = await post.envelopes()
        await delivered(opened(clock=lambda: 0.0), [structs.replace(envelope, expires_at=at)])
        assert fake.made[-1].fields["ValidityPeriod"] == str(seconds)
    (envelope,) = await post.envelopes()
    await delivered(opened(clock=lambda: 50.0), [structs.replace(envelope, expires_at=20.0)])
    assert fake.made[-1].fields["ValidityPeriod"] == "1"
    await delivered(opened(sends="voice"), [structs.replace(one, expires_at=9.0) for one in await post.envelopes()])
    assert "ValidityPeriod" not in fake.made[-1].fields


# WhatsApp


async def test_whatsapp_takes_a_free_text(fake: FakeTwilio, opened: Opened, post: Post) -> None:
    post.recipient = f"whatsapp:{NUMBER}"
    post.parts = {"body": "Hello"}
    fields = await _sent(fake, opened, post, sends="whatsapp")
    assert (fields["To"], fields["From"], fields["Body"]) == (f"whatsapp:{NUMBER}", f"whatsapp:{FROM}", "Hello")


async def test_whatsapp_takes_a_content_template_with_variables(fake: FakeTwilio, opened: Opened, post: Post) -> None:
    post.parts = {"content_sid": f" {CONTENT}\n", "content_variables": ' {"1": "Ann", "2": "17"} '}
    fields = await _sent(fake, opened, post, sends="whatsapp", sender=SERVICE)
    assert (fields["ContentSid"], fields["ContentVariables"]) == (CONTENT, '{"1": "Ann", "2": "17"}')
    assert (fields["To"], fields["MessagingServiceSid"]) == (f"whatsapp:{NUMBER}", SERVICE)
    assert "Body" not in fields
    post.parts = {"content_sid": CONTENT}
    assert "ContentVariables" not in await _sent(fake, opened, post, sends="whatsapp")


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ({"body": ""}, "body: is missing or empty; write a text, or a content_sid"),
        ({"content_sid": "order_17"}, "content_sid: is not the SID of a content template"),
        ({"content_sid": CONTENT, "content_variables": "Ann"}, "content_variables: are not a JSON object of texts"),
        ({"content_sid": CONTENT, "content_variables": '{"1": 17}'}, "content_variables: are not a JSON object"),
        ({"content_sid": CONTENT, "content_variables": '{"1": ""}'}, "content_variables: have an empty one"),
        ({"content_sid": CONTENT, "content_variables": "[" * 90_000}, "content_variables: are not a JSON object"),
        (
            {"content_sid": CONTENT, "content_variables": json.dumps({"1": "x" * 1_601})},
            "content_variables: have one of over 1,600 characters",
        ),
    ],
)
async def test_a_content_template_that_cannot_be_sent_is_refused(
    parts: dict[str, str], words: str, fake: FakeTwilio, opened: Opened, post: Post
) -> None:
    post.parts = parts
    assert (await _refused(opened, post, sends="whatsapp")).startswith(words)
    assert not fake.requests


# Voice


async def test_a_call_has_twiml_from_the_template(fake: FakeTwilio, opened: Opened, post: Post) -> None:
    twiml = '<Response><Say language="de-DE">Ihr Code: 1 2 3</Say></Response>'
    post.parts = {"body": f"\n{twiml}\n"}
    fields = await _sent(fake, opened, post, sends="voice")
    assert fake.made[-1].path == f"/2010-04-01/Accounts/{ACCOUNT}/Calls.json"
    assert (fields["To"], fields["From"], fields["Twiml"]) == (NUMBER, FROM, twiml)
    assert fields["StatusCallback"].startswith(RECEIVER.url)


async def test_a_plain_text_is_said(fake: FakeTwilio, opened: Opened, post: Post) -> None:
    post.parts = {"body": "Fish & chips </Say>"}
    fields = await _sent(fake, opened, post, sends="voice")
    assert fields["Twiml"].endswith("<Response><Say>Fish &amp; chips &lt;/Say&gt;</Say></Response>")


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("", "body: is missing or empty; write TwiML"),
        ("<Response><Say>Ann & Bob</Say></Response>", "body: is not TwiML that can be read; put variables through"),
        ("<Response><Say>", "body: is not TwiML that can be read"),
        ("a\x01b", "body: is not TwiML that can be read"),
        ("<Say>Hello</Say>", "body: is XML without <Response>"),
        ('<!DOCTYPE a [<!ENTITY b "c">]><Response>&b;</Response>', "body: has a DOCTYPE"),
        ("x" * 4_000, "body: has 4,070 characters as TwiML, over the 4,000 that Twilio takes"),
    ],
)
async def test_a_call_that_cannot_be_made_is_refused(
    body: str, words: str, fake: FakeTwilio, opened: Opened, post: Post
) -> None:
    post.parts = {"body": body}
    assert (await _refused(opened, post, sends="voice")).startswith(words)
    assert not fake.requests


# Options


def _configured(**given: str) -> Config:
    options = {"ACCOUNT_SID": ACCOUNT, "SECRET": SECRET} | {name.upper(): value for name, value in given.items()}
    environ = {f"DISPATCHER_CHANNELS__SMS__OPTIONS__{name}": value for name, value in options.items()}
    return load(None, environ | {"DISPATCHER_CHANNELS__SMS__PROVIDER": "twilio"}, PROVIDERS)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"account_sid": "AC1"}, "options.account_sid: expected an account SID"),
        ({"secret": "a b"}, "options.secret: expected a secret"),
        ({"api_key": ACCOUNT}, "options.api_key: expected nothing, or the SID of an API key"),
        ({"from": "01555" + "0" * 9}, "options.from: expected nothing, or a number with + and its country"),
        ({"sends": "fax"}, "options.sends: "),
        ({"url": "http://api.twilio.com"}, "options.url: expected a URL that begins with https://"),
        ({"senders": f"acme={SERVICE}"}, "tenant/workspace = a number"),
        ({"senders": f"a/b={SERVICE}\na/b=Shop"}, "senders has a workspace twice"),
    ],
)
def test_faults_of_the_options_are_found_when_they_are_read(given: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError) as told:
        _configured(**given)
    assert words in str(told.value)
    assert SECRET not in str(told.value)


def test_the_secret_is_never_shown() -> None:
    config = _configured(**{"from": FROM}, senders=f"a/b = {SERVICE}, c/d = My Shop")
    told = json.dumps(show(config, PROVIDERS))
    assert SECRET not in told
    assert SERVICE in told


def test_the_url_goes_to_this_machine_only_without_tls() -> None:
    TwilioOptions(ACCOUNT, SECRET, url="http://127.0.0.1:80")
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"account_sid": ACCOUNT, "secret": SECRET, "url": "http://10.0.0.1"}, TwilioOptions)

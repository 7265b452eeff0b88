"""The channel beside the SDK with its own client: they send the same, and read the same in what comes back."""

import pytest
from twilio.http.async_http_client import AsyncTwilioHttpClient
from twilio.rest import Client

from channels.contract import Accepted
from tests.channels.suite import NUMBER, Post
from tests.channels.twilio.conftest import Opened, delivered
from tests.channels.twilio.fake import ACCOUNT, CONTENT, FROM, SECRET, SERVICE, FakeTwilio

VARIABLES = '{"1": "Ann & Bob", "2": "+50 % \N{GRINNING FACE}"}'
TEXT = "Grüße; a=1&b=2 %41 ~ '\"\r\n"
# What is sent, the channel's options, the parts of the message, and the same as parameters of the SDK.
MESSAGES = [
    ("sms", {}, {"body": TEXT}, {"to": NUMBER, "from_": FROM, "body": TEXT}),
    ("sms", {"sender": SERVICE}, {"body": "x"}, {"to": NUMBER, "messaging_service_sid": SERVICE, "body": "x"}),
    (
        "whatsapp",
        {},
        {"content_sid": CONTENT, "content_variables": VARIABLES},
        {
            "to": f"whatsapp:{NUMBER}",
            "from_": f"whatsapp:{FROM}",
            "content_sid": CONTENT,
            "content_variables": VARIABLES,
        },
    ),
    (
        "voice",
        {},
        {"body": "<Response><Say>1 &amp; 2</Say></Response>"},
        {"to": NUMBER, "from_": FROM, "twiml": "<Response><Say>1 &amp; 2</Say></Response>"},
    ),
]


# What the SDK's own client does of aiohttp's is deprecated there.
@pytest.mark.filterwarnings("ignore:BasicAuth is deprecated", "ignore:The 'auth' parameter is deprecated")
@pytest.mark.parametrize(("sends", "options", "parts", "parameters"), MESSAGES)
async def test_both_send_and_read_the_same(
    sends: str,
    options: dict[str, str],
    parts: dict[str, str],
    parameters: dict[str, str],
    fake: FakeTwilio,
    opened: Opened,
    post: Post,
) -> None:
    post.parts = parts
    (envelope,) = await post.envelopes()
    (verdict,) = await delivered(opened(sends=sends, **options), [envelope])
    http = AsyncTwilioHttpClient()
    sdk = Client(ACCOUNT, SECRET, http_client=http)
    sdk.api.base_url = fake.url
    resource = sdk.calls if sends == "voice" else sdk.messages
    made = await resource.create_async(**parameters, status_callback=fake.made[0].fields["StatusCallback"])
    await http.close()
    ours, theirs = fake.requests
    assert (ours.path, ours.fields) == (theirs.path, theirs.fields)
    named = ("authorization", "content-type", "user-agent", "x-twilio-client", "accept-charset", "accept")
    assert [ours.headers[name] for name in named] == [theirs.headers[name] for name in named]
    # The stand-in numbers what it makes.
    assert isinstance(verdict, Accepted)
    assert verdict.provider_message_id[:-1] == made.sid[:-1]
    assert (verdict.provider_message_id[-1], made.sid[-1]) == ("1", "2")

"""Twilio's callbacks: its own vector, and nothing else than what was signed for our URL."""

import hashlib
import json
from urllib.parse import urlencode

import pytest

from channels.targets import Receiver
from channels.twilio.error_codes import DEAD_NUMBERS
from channels.twilio.message import Messages
from channels.twilio.options import TwilioOptions
from dispatcher.base.values.addresses import Address
from dispatcher.features.receipts.providers import twilio
from dispatcher.features.receipts.providers.providers import configured_providers
from dispatcher.features.receipts.providers.receipt import Kind, Receipt, Reply
from dispatcher.features.receipts.providers.request import Accepted, Answer, Forged, Garbled, Request
from tests.features.receipts import support

TOKEN, OLDER = "t" * 32, "o" * 32
PUBLIC = "https://mail.example.org/post"
URL = "https://mail.example.org/post/receipts/twilio?delivery=17"
FIELDS = {"MessageSid": "SM1", "MessageStatus": "delivered", "To": "+4917012345", "From": "+1 500", "Body": ""}
OPTIONS = TwilioOptions("AC" + "0" * 32, TOKEN)
PROVIDER = configured_providers(PUBLIC, twilio_tokens=f"{TOKEN} {OLDER}")["twilio"]


def _answer(fields: dict[str, str], query: str = "delivery=17", url: str = URL, token: str = TOKEN) -> Answer:
    body = urlencode(fields).encode()
    return PROVIDER(Request(support.callback(token, url, fields), query, body, 0))


def test_the_published_vector_is_right() -> None:
    fields = {"CallSid": "CA1234567890ABCDE", "Digits": "1234", "From": "+14158675309", "To": "+18005551212"}
    fields["Caller"] = "+14158675309"
    url = "https://mycompany.com/myapp.php?foo=1&bar=2"
    assert support.callback("12345", url, fields)["x-twilio-signature"] == "RSOYDt4T1cUTdK1PDd93/VVr8B8="


def test_the_url_that_a_message_is_given_is_the_one_that_counts() -> None:
    for public in (PUBLIC, PUBLIC + "/"):
        assert Messages(OPTIONS, Receiver(twilio.receiver_url(public))).callback(17) == URL
    answer = _answer(FIELDS)
    assert isinstance(answer, Accepted)
    assert answer.receipts == (Receipt("delivered", None, 17, None, ("SM1",), "+4917012345"),)


def test_every_token_counts_and_either_way_to_write_the_port() -> None:
    assert isinstance(_answer(FIELDS, token=OLDER), Accepted)
    assert isinstance(_answer(FIELDS, token="x" * 32), Forged)
    assert isinstance(_answer(FIELDS, url=URL.replace("example.org", "example.org:443")), Accepted)
    assert isinstance(_answer(FIELDS, url=URL.replace("example.org", "example.org:80")), Forged)


@pytest.mark.parametrize(
    "url",
    [
        URL.replace("https", "http"),
        URL.replace("mail.", "other."),
        URL.replace("=17", "=18"),
        URL.replace("/post", ""),
        URL.partition("?")[0],
    ],
)
def test_a_signature_for_another_url_is_refused(url: str) -> None:
    assert isinstance(_answer(FIELDS, url=url), Forged)


def test_the_query_is_signed_as_it_came() -> None:
    assert isinstance(_answer(FIELDS, "delivery=18"), Forged)
    assert isinstance(_answer(FIELDS, ""), Forged)
    assert isinstance(_answer(FIELDS, "delivery=%31%37"), Forged)


def test_no_byte_of_the_body_can_be_changed_added_or_left_out() -> None:
    body, headers = urlencode(FIELDS).encode(), support.callback(TOKEN, URL, FIELDS)
    assert isinstance(PROVIDER(Request(headers, "delivery=17", body, 0)), Accepted)
    for at in range(len(body)):
        for changed in (body[:at] + bytes([body[at] ^ 2]) + body[at + 1 :], body[:at] + b"x" + body[at:]):
            assert isinstance(PROVIDER(Request(headers, "delivery=17", changed, 0)), Forged), changed
    assert isinstance(PROVIDER(Request(headers, "delivery=17", body + b"&More=1", 0)), Forged)


def test_no_character_of_the_signature_can_be_changed() -> None:
    body, headers = urlencode(FIELDS).encode(), support.callback(TOKEN, URL, FIELDS)
    right = headers["x-twilio-signature"]
    for wrong in ("", right[:-1], right + "=", right.lower(), "\u00fc", *(right[:at] + "!" for at in range(28))):
        assert isinstance(PROVIDER(Request({"x-twilio-signature": wrong}, "delivery=17", body, 0)), Forged)
    assert isinstance(PROVIDER(Request({}, "delivery=17", body, 0)), Forged)


def test_a_body_other_than_a_form_is_refused() -> None:
    for body in (b"\xff\xfe", b"&".join(b"a=1" for _ in range(500))):
        assert isinstance(PROVIDER(Request(support.callback(TOKEN, URL, {}), "delivery=17", body, 0)), Forged)
    assert isinstance(_answer({"Hello": "x"}), Garbled)


def test_a_signed_form_has_a_limit_of_fields() -> None:
    fields = FIELDS | {f"More{number}": "x" for number in range(twilio.FIELDS_MAX - len(FIELDS))}
    assert isinstance(_answer(fields), Accepted)
    assert isinstance(_answer(fields | {"One": "x"}), Forged)


@pytest.mark.parametrize(
    ("fields", "kind", "reason"),
    [
        *(({"MessageStatus": said}, "sent", "") for said in ("accepted", "scheduled", "queued", "sending", "sent")),
        ({"MessageStatus": "delivered"}, "delivered", ""),
        ({"MessageStatus": "canceled"}, "failed", "canceled"),
        ({"MessageStatus": "read"}, "opened", ""),
        ({"SmsStatus": "sent"}, "sent", ""),
        ({"MessageStatus": "undelivered", "ErrorCode": "30008"}, "failed", "undelivered 30008"),
        *(
            ({"MessageStatus": "undelivered", "ErrorCode": str(code)}, "bounced_hard", f"undelivered {code}")
            for code in DEAD_NUMBERS
        ),
        ({"MessageStatus": "delivered", "ErrorCode": "30005"}, "delivered", ""),
        ({"MessageStatus": "failed"}, "failed", "failed"),
        *(({"CallStatus": said}, "sent", "") for said in ("queued", "initiated", "ringing")),
        *(({"CallStatus": said}, "delivered", "") for said in ("in-progress", "answered", "completed")),
        ({"CallStatus": "busy"}, "failed", "busy"),
        ({"CallStatus": "no-answer"}, "failed", "no-answer"),
    ],
)
def test_each_status_is_one_kind(fields: dict[str, str], kind: Kind, reason: str) -> None:
    answer = _answer(fields | {"To": "whatsapp:+4917012345"})
    assert isinstance(answer, Accepted)
    (one,) = answer.receipts
    assert (one.kind, one.reason, one.recipient) == (kind, reason, "+4917012345")


@pytest.mark.parametrize("field", ["MessageSid", "SmsSid", "CallSid"])
def test_it_is_called_what_twilio_calls_it(field: str) -> None:
    answer = _answer({"MessageStatus": "sent", field: "X1"})
    assert isinstance(answer, Accepted)
    assert answer.receipts[0].names == ("X1",)


def test_the_same_callback_has_the_same_name_and_another_has_another() -> None:
    first, again, other = _answer(FIELDS), _answer(FIELDS), _answer(FIELDS | {"MessageStatus": "read"})
    assert isinstance(first, Accepted)
    assert isinstance(again, Accepted)
    assert isinstance(other, Accepted)
    assert first.event == again.event != other.event
    # Nothing that is signed says when: it is known for as long as anybody might say it again.
    assert (first.kept_seconds, twilio.KEPT_SECONDS) == (twilio.KEPT_SECONDS, 86_400)


def test_the_channel_suppresses_by_the_same_codes() -> None:
    assert set(map(int, twilio.DEAD_NUMBERS)) == DEAD_NUMBERS


def test_a_field_with_several_values_is_signed_with_each() -> None:
    body = "Tag=b&Tag=a&MessageStatus=sent"
    signed = support.callback(TOKEN, URL + "MessageStatussentTagaTagb", {})
    assert isinstance(PROVIDER(Request(signed, "delivery=17", body.encode(), 0)), Accepted)
    assert isinstance(PROVIDER(Request(signed, "delivery=17", body.replace("Tag=b", "Tag=c").encode(), 0)), Forged)


def test_a_signature_by_sha_256_says_so_in_a_header() -> None:
    settings = {"x-twilio-webhooks-signature-settings": "key=webhooks_sharedkey_1,algorithm=HMAC_SHA256"}
    body = urlencode(FIELDS).encode()
    stronger = support.callback(TOKEN, URL, FIELDS, "sha256")
    assert isinstance(PROVIDER(Request(stronger | settings, "delivery=17", body, 0)), Accepted)
    assert isinstance(PROVIDER(Request(stronger, "delivery=17", body, 0)), Forged)
    unknown = {"x-twilio-webhooks-signature-settings": "algorithm=NONE"}
    assert isinstance(PROVIDER(Request(support.callback(TOKEN, URL, FIELDS) | unknown, "delivery=17", body, 0)), Forged)


def _json_answer(body: bytes, signed: bytes | None = None) -> Answer:
    query = f"delivery=17&bodySHA256={hashlib.sha256(body if signed is None else signed).hexdigest()}"
    headers = support.callback(TOKEN, URL.partition("?")[0] + f"?{query}", {})
    return PROVIDER(Request(headers, query, body, 0))


def test_a_json_body_is_signed_by_its_hash_in_the_url() -> None:
    body = json.dumps(FIELDS | {"More": {"a": [1]}}).encode()
    answer = _json_answer(body)
    assert isinstance(answer, Accepted)
    assert answer.receipts == (Receipt("delivered", None, 17, None, ("SM1",), "+4917012345"),)
    assert isinstance(_json_answer(body + b" ", body), Forged)
    assert isinstance(_json_answer(body.replace(b"delivered", b"undelivered"), body), Forged)
    for broken in (b"", b"[]", b"{", b'{"a": 1', b"[" * 10_000):
        assert isinstance(_json_answer(broken), Garbled)
    assert isinstance(_json_answer(b"\xff"), Forged)


INCOMING = {"MessageSid": "SM2", "SmsStatus": "received", "From": "+4917012345", "To": "+15005550006"}


@pytest.mark.parametrize("word", ["STOP", "stop", " Unsubscribe ", "OptOut"])
def test_stop_is_a_reply(word: str) -> None:
    answer = _answer(INCOMING | {"Body": word})
    assert isinstance(answer, Accepted)
    assert answer.receipts == ()
    assert answer.reply == Reply(Address("phone", "+4917012345"), "sms", starts=False)


def test_the_word_that_twilio_has_read_counts_before_the_text() -> None:
    for said, starts in (("STOP", False), ("START", True)):
        answer = _answer(INCOMING | {"Body": "basta", "OptOutType": said})
        assert isinstance(answer, Accepted)
        assert answer.reply is not None
        assert answer.reply.starts is starts
    helped = _answer(INCOMING | {"Body": "stop", "OptOutType": "HELP"})
    assert isinstance(helped, Accepted)
    assert helped.reply is None


def test_the_query_may_name_the_tenant_and_the_channel() -> None:
    query = "tenant=acme&channel=sms_news"
    answer = _answer(INCOMING | {"Body": "START"}, query, URL.partition("?")[0] + f"?{query}")
    assert isinstance(answer, Accepted)
    assert answer.reply == Reply(Address("phone", "+4917012345"), "sms_news", starts=True, tenant_id="acme")
    whatsapp = _answer(INCOMING | {"Body": "Stop", "From": "whatsapp:+4917012345"})
    assert isinstance(whatsapp, Accepted)
    assert whatsapp.reply == Reply(Address("phone", "+4917012345"), "whatsapp", starts=False)
    wrong = "channel=No!"
    assert isinstance(_answer(INCOMING | {"Body": "STOP"}, wrong, URL.partition("?")[0] + f"?{wrong}"), Garbled)


@pytest.mark.parametrize("fields", [{"Body": "please stop"}, {"Body": ""}, {"Body": "STOP", "From": "12345"}, {}])
def test_any_other_message_of_a_person_says_nothing(fields: dict[str, str]) -> None:
    answer = _answer(INCOMING | fields)
    assert isinstance(answer, Accepted)
    assert (answer.reply, answer.receipts) == (None, ())


def test_an_unknown_status_gives_no_receipt() -> None:
    answer = _answer({"MessageStatus": "teleported"})
    assert isinstance(answer, Accepted)
    assert answer.receipts == ()

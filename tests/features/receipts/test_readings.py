"""Messages of Resend, SES and our own form, read as receipts."""

import base64
import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dispatcher.features.receipts.providers.providers import configured_providers
from dispatcher.features.receipts.providers.receipt import (
    RANKS,
    Candidate,
    Kind,
    Receipt,
    instant,
    match,
    named,
    recipient,
    words,
)
from dispatcher.features.receipts.providers.request import Accepted, Answer, Garbled, Provider, Request
from tests.features.receipts import support

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
AT = 1_800_000_000
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
PROVIDERS = configured_providers(resend_secrets=SECRET, generic_secrets=SECRET)


def _heard(provider: Provider, body: bytes) -> Answer:
    return provider(Request(support.webhook(SECRET, body, AT), "", body, AT))


def _receipts(provider: Provider, body: bytes) -> tuple[Receipt, ...]:
    answer = _heard(provider, body)
    assert isinstance(answer, Accepted), answer
    return answer.receipts


# Resend


@pytest.mark.parametrize(
    ("event", "data", "kind"),
    [
        ("email.sent", {}, "sent"),
        ("email.delivered", {}, "delivered"),
        ("email.delivery_delayed", {}, "sent"),
        ("email.complained", {}, "complained"),
        ("email.opened", {}, "opened"),
        ("email.clicked", {"click": {"link": "https://x"}}, "clicked"),
        ("email.failed", {"failed": {"reason": "reached_daily_quota"}}, "failed"),
        ("email.bounced", {"bounce": {"type": "Permanent", "subType": "General", "message": "gone"}}, "bounced_hard"),
        ("email.bounced", {"bounce": {"type": "Transient", "message": "full"}}, "bounced_soft"),
        ("email.bounced", {"bounce": {"type": "Undetermined"}}, "bounced_soft"),
        ("email.bounced", {}, "bounced_soft"),
    ],
)
def test_each_event_of_resend_is_one_kind(event: str, data: dict[str, Any], kind: Kind) -> None:
    (one,) = _receipts(PROVIDERS["resend"], support.resend(event, 17, **data))
    assert (one.kind, one.delivery_id, one.names, one.recipient) == (kind, 17, ("4ef9a417",), "ann@example.org")
    assert one.at == NOON


def test_tags_may_be_a_list_and_a_number_that_is_none_is_none() -> None:
    tags = [{"name": "other", "value": "1"}, {"name": "delivery", "value": "23"}]
    assert _receipts(PROVIDERS["resend"], support.resend("email.sent", tags=tags))[0].delivery_id == 23
    for tag in ("", "-1", "0", "1.0", "x", "9" * 19, "9" * 40, "\u0663"):
        assert _receipts(PROVIDERS["resend"], support.resend("email.sent", tag))[0].delivery_id is None


def test_events_about_something_else_say_nothing() -> None:
    for event in ("contact.created", "domain.updated", "email.received", "email.scheduled", "tomorrows.event"):
        assert _receipts(PROVIDERS["resend"], support.resend(event, 1)) == ()


def test_a_reason_has_no_address_in_it() -> None:
    bounce = {"type": "Permanent", "message": "550 <Ann@Example.org>: unknown ann@example.org"}
    (one,) = _receipts(PROVIDERS["resend"], support.resend("email.bounced", 1, bounce=bounce))
    assert one.reason == "Permanent: 550 …: unknown …"


_scalar = st.none() | st.booleans() | st.integers() | st.text(max_size=20)
_json = _scalar | st.lists(_scalar, max_size=3) | st.dictionaries(st.text(max_size=8), _scalar, max_size=3)
_said = st.dictionaries(st.sampled_from(["email_id", "to", "tags", "bounce", "failed", "created_at"]), _json)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from(["email.bounced", "email.delivered"]), _said)
def test_whatever_resend_says_is_a_receipt_or_nothing(event: str, data: dict[str, Any]) -> None:
    body = json.dumps({"type": event, "created_at": data.get("created_at"), "data": data}).encode()
    for one in _receipts(PROVIDERS["resend"], body):
        assert "\0" not in "".join((*one.names, one.recipient, one.reason))


@given(st.binary(max_size=60) | _json.map(lambda value: json.dumps(value).encode()))
def test_invalid_events_are_answered_as_garbled(body: bytes) -> None:
    for name in ("resend", "generic"):
        assert isinstance(_heard(PROVIDERS[name], body), Garbled | Accepted)
    assert isinstance(_heard(PROVIDERS["resend"], b"[" * 100_000), Garbled)


# Our own form


def test_our_own_form_names_a_delivery_by_its_id_or_by_its_key() -> None:
    body = {"id": 5, "status": "delivered", "at": "2026-11-18T13:00:00+01:00", "reason": "by hand"}
    (one,) = _receipts(PROVIDERS["generic"], json.dumps(body).encode())
    assert one == Receipt("delivered", NOON, 5, reason="by hand")
    body = {"idempotency_key": "order-17", "tenant_id": "shop", "status": "bounced_hard"}
    (one,) = _receipts(PROVIDERS["generic"], json.dumps(body).encode())
    assert one == Receipt("bounced_hard", key=("shop", "default", "order-17"))


@pytest.mark.parametrize(
    ("body", "named"),
    [
        ({"status": "delivered"}, "idempotency_key"),
        ({"id": 1, "idempotency_key": "k", "status": "delivered"}, "idempotency_key"),
        ({"id": 1}, "status"),
        ({"id": 1, "status": "vanished"}, "status"),
        ({"id": "1", "status": "sent"}, "id"),
        ({"id": 0, "status": "sent"}, "id"),
        ({"id": 2**63, "status": "sent"}, "id"),
        ({"id": 1, "status": "sent", "at": "2026-11-18T13:00:00"}, "at"),
        ({"id": 1, "status": "sent", "more": 1}, "more"),
        ({"idempotency_key": "a\0b", "status": "sent"}, "idempotency_key"),
        ({"idempotency_key": "k", "tenant_id": "", "status": "sent"}, "tenant_id"),
    ],
)
def test_a_fault_in_our_own_form_is_named(body: dict[str, Any], named: str) -> None:
    answer = _heard(PROVIDERS["generic"], json.dumps(body).encode())
    assert isinstance(answer, Garbled)
    assert named in answer.why


# Which delivery is meant


def _candidate(number: int = 1, to: str = "ann@example.org", message_id: str | None = None) -> Candidate:
    return Candidate(number, "default", "default", f"k{number}", "email", to, 0, message_id)


def _identity(one: Candidate) -> str:
    return f"identity-{one.id}"


def test_a_number_counts_only_with_the_right_recipient_or_name() -> None:
    """An account may serve two databases, in each of which the number means another delivery."""
    said = Receipt("delivered", delivery_id=1, names=("abc",), recipient="Ann <ANN@example.org>")
    assert match(said, [_candidate()], _identity) is not None
    assert match(said, [_candidate(to="bob@example.org")], _identity) is None
    assert match(said, [_candidate(to="bob@example.org", message_id="abc")], _identity) is not None
    assert match(Receipt("sent", delivery_id=1), [_candidate()], _identity) is not None
    assert match(said, [], _identity) is None


def test_without_a_number_the_name_decides_or_the_message_id() -> None:
    said = Receipt("delivered", names=("abc", "identity-2@mail.example.org"), recipient="ann@example.org")
    two = [_candidate(1), _candidate(2)]
    assert match(said, two, _identity) is two[1]
    three = [_candidate(3, message_id="abd"), _candidate(4, message_id="abc")]
    assert match(said, three, _identity) is three[1]
    assert match(Receipt("delivered", names=("identity-1",), recipient="ann@example.org"), two, _identity) is None
    assert match(Receipt("delivered", names=(), recipient="ann@example.org"), two, _identity) is None


def test_ranks_say_what_takes_nothing_back() -> None:
    in_order: list[Kind] = [
        "sent",
        "bounced_soft",
        "failed",
        "delivered",
        "opened",
        "clicked",
        "bounced_hard",
        "complained",
    ]
    assert sorted(RANKS, key=RANKS.__getitem__) == in_order


def test_words_and_names_are_bounded_and_storable() -> None:
    assert len(words("x" * 10_000)) == 500
    assert words("a\0b\ud800") == "a?b?"
    assert named("<id@host>", None, 5, "", "x" * 256, "y" * 255) == ("id@host", "y" * 255)
    assert len(recipient("a" * 10_000)) < 2_000


def test_a_time_is_one_with_a_zone_and_within_the_years_that_there_are() -> None:
    assert instant("2026-11-18T13:00:00+01:00") == NOON
    for text in ("2026-11-18T12:00:00", "0001-01-01T00:00:00+14:00", "noon", 5, None):
        assert instant(text) is None


def test_a_recipient_named_erased_is_not_erased() -> None:
    assert not _candidate(to="erased").is_erased


# SES, by SNS


@pytest.fixture(scope="module")
def sns(tmp_path_factory: pytest.TempPathFactory) -> support.Sns:
    return support.Sns(tmp_path_factory.mktemp("sns"))


def _ses(sns: support.Sns, message: object) -> tuple[Receipt, ...]:
    provider = configured_providers(ses_topics=support.TOPIC, ses_certificates=sns.pem)["ses"]
    answer = provider(Request({}, "", json.dumps(sns.notification(message, AT)).encode(), AT))
    assert isinstance(answer, Accepted), answer
    return answer.receipts


@pytest.mark.parametrize(
    ("event", "kind", "reason"),
    [
        ("Send", "sent", ""),
        ("Delivery", "delivered", ""),
        ("Bounce", "bounced_hard", "Permanent: General: smtp; 550 5.1.1 …: no such user"),
        ("Complaint", "complained", "abuse"),
        ("Open", "opened", ""),
        ("Click", "clicked", ""),
        ("Reject", "failed", "Bad content"),
        ("DeliveryDelay", "sent", ""),
    ],
)
def test_each_event_of_ses_is_one_kind(sns: support.Sns, event: str, kind: Kind, reason: str) -> None:
    headers: dict[str, Any] = {"commonHeaders": {"messageId": "<identity-1@shop.example>"}, "tags": {"delivery": ["7"]}}
    said = support.ses(event, **headers)
    (one,) = _ses(sns, said)
    assert (one.kind, one.reason, one.recipient, one.delivery_id) == (kind, reason, "ann@example.org", 7)
    assert one.names == ("0102-ses", "identity-1@shop.example")


def test_not_spam_feedback_is_not_a_complaint(sns: support.Sns) -> None:
    said = support.ses("Complaint")
    said["complaint"] |= {"complaintFeedbackType": "not-spam"}
    (one,) = _ses(sns, said)
    assert (one.kind, one.reason, one.suppresses) == ("delivered", "not-spam", None)
    del said["complaint"]["complaintFeedbackType"]
    assert [one.kind for one in _ses(sns, said)] == ["complained"]


def test_the_older_form_and_each_of_several_recipients(sns: support.Sns) -> None:
    said = support.ses("Bounce")
    said["notificationType"] = said.pop("eventType")
    said["bounce"] |= {"bounceType": "Transient"}
    said["bounce"]["bouncedRecipients"].append({"emailAddress": "bob@example.org"})
    assert [(one.kind, one.recipient) for one in _ses(sns, said)] == [
        ("bounced_soft", "ann@example.org"),
        ("bounced_soft", "bob@example.org"),
    ]


@pytest.mark.parametrize("message", ["Successfully validated SNS topic", "", "[]", "{}", '{"mail": 1}', '{"mail": {}}'])
def test_other_messages_of_the_topic_give_no_receipt(sns: support.Sns, message: str) -> None:
    assert _ses(sns, message) == ()


def test_an_rsa_key_is_needed(tmp_path: Path) -> None:
    curve = support.Sns(tmp_path, "ec", "-pkeyopt", "ec_paramgen_curve:P-256")
    with pytest.raises(ValueError, match="not RSA"):
        configured_providers(ses_topics=support.TOPIC, ses_certificates=curve.pem)

"""The demonstration's deliveries: a few of each kind of ending, under keys that are the same at every start."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta

import msgspec

from dispatcher.domain.keys import delivery_key
from dispatcher.domain.life import Lane
from dispatcher.store.deliveries import New

RUN = "demonstration"
# Part of each key, so it never changes.
BORN = datetime(2026, 1, 1, tzinfo=UTC)
AHEAD_SECONDS = 30


def samples(now: datetime) -> list[New]:
    """A handful over several channels: one ahead of its time, one with a missing variable, one that is there twice."""
    ann = {"name": "Ann", "code": 482_913}
    code = _new(
        "sms", "+4915550000001", "code", {"body": "{{ code }} is your code, {{ name }}."}, ann, lane=Lane.TRANSACTIONAL
    )
    letter = {
        "subject": "Your order {{ order.number }}",
        "text": "Hello {{ name }},\n{% for item in order.items %}- {{ item }}\n{% endfor %}Thank you!",
    }
    order = {"name": "Bela", "order": {"number": 1001, "items": ["a lamp", "two books"]}}
    return [
        code,
        _new("email", "bela@example.org", "order", letter, order),
        _new("push", "device-cem", "arrival", {"body": "Your parcel is {{ minutes }} minutes away."}, {"minutes": 7}),
        _new("social", "", "news", {"body": "{{ shop | upcase }} opens."}, {"shop": "the lamp shop"}, lane=Lane.BULK),
        _new(
            "chat",
            "#operations",
            "ahead",
            {"body": "This was sent {{ seconds }} s after the start."},
            {"seconds": AHEAD_SECONDS},
            scheduled_for=now + timedelta(seconds=AHEAD_SECONDS),
        ),
        _new("whatsapp", "+4915550000002", "missing", {"body": "Hello {{ name }}, you forgot something."}, {}),
        code,
    ]


def _new(
    channel: str,
    recipient: str,
    subject: str,
    template: dict[str, str],
    variables: Mapping[str, object],
    lane: Lane = Lane.NORMAL,
    scheduled_for: datetime | None = None,
) -> New:
    return New(
        idempotency_key=delivery_key(channel, RUN, recipient, subject, BORN),
        channel=channel,
        recipient=recipient,
        template=msgspec.json.encode(template).decode(),
        variables=msgspec.json.encode(variables).decode(),
        lane=lane,
        scheduled_for=scheduled_for,
    )

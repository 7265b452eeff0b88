"""The samples of the demonstration: deliveries of each kind of ending, and a workflow, with fixed keys."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from dispatcher.base.values.idempotency import delivery_key
from dispatcher.engine.rules.life import Lane
from dispatcher.features.deliveries.store import New

RUN = "demonstration"
# Part of each key, so it never changes.
BORN = datetime(2026, 1, 1, tzinfo=UTC)
AHEAD_SECONDS = 30


def samples(now: datetime) -> list[New]:
    """Return deliveries of several channels: a scheduled one, one with a missing variable, and a duplicate."""
    ann = {"name": "Ann", "code": 482_913}
    code = _new(
        "sms", "+4915550000001", "code", {"body": "{{ code }} is your code, {{ name }}."}, ann, lane=Lane.TRANSACTIONAL
    )
    mail = {
        "subject": "Your order {{ order.number }}",
        "text": "Hello {{ name }},\n{% for item in order.items %}- {{ item }}\n{% endfor %}Thank you!",
    }
    order = {"name": "Bela", "order": {"number": 1001, "items": ["a lamp", "two books"]}}
    return [
        code,
        _new("email", "bela@example.org", "order", mail, order),
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


# Every kind of step that needs no person: a mail, a delay, a branch, two paths and their join.
WORKFLOW = "demonstration"
DEFINITION = """
name: demonstration
description: Thanks for an order, and a little later says where it is.
required_fields: [name, order]
entryNodeId: thanks
nodes:
  - {id: thanks, type: email, to: "{{ email }}", subject: "Order {{ order.id }}", text: "Thank you, {{ name }}."}
  - {id: a_while, type: delay, duration: 1s}
  - {id: how, type: branch}
  - {id: express, type: sms, to: "{{ phone }}", body: "{{ name }}, your order {{ order.id }} arrives today."}
  - {id: parcel, type: push, to: "{{ device }}", body: "Your order is on its way."}
  - {id: team, type: chat, to: orders, body: "{{ order.id }} is out; {{ name }} was written to: {{ thanks.status }}."}
edges:
  - {from: thanks, to: a_while}
  - {from: a_while, to: how}
  - {from: how, to: express, condition: order.total > 100}
  - {from: how, to: parcel}
  - {from: express, to: team}
  - {from: parcel, to: team}
"""
INPUT: Mapping[str, object] = {
    "name": "Dora",
    "email": "dora@example.org",
    "phone": "+4915550000004",
    "device": "device-dora",
    "order": {"id": 1002, "total": 240},
}


def _new(
    channel: str,
    recipient: str,
    subject: str,
    template: dict[str, str],
    variables: Mapping[str, object],
    **more: Any,  # noqa: ANN401 - other fields of New
) -> New:
    return New(
        idempotency_key=delivery_key(channel, RUN, recipient, subject, BORN),
        channel=channel,
        recipient=recipient,
        template=msgspec.json.encode(template).decode(),
        variables=msgspec.json.encode(variables).decode(),
        **more,
    )

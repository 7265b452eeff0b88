"""Previews: the steps of a draft for one contact, each at its time and as it would be sent."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec

from dispatcher.base.errors import TemplateError
from dispatcher.base.values.locales import nearest
from dispatcher.base.values.sms_segments import segments_of
from dispatcher.features.runs.walk.enrolments import contacts
from dispatcher.features.sequences.models import PreviewedStep
from dispatcher.features.sequences.rules import Settings, Step, address_kind, parts_of
from dispatcher.features.templates import store as templates
from dispatcher.features.templates.rules import preview
from dispatcher.features.templates.store import PUBLISHED
from dispatcher.http.endpoints import Call
from dispatcher.liquid.template import Bounds, Sources
from dispatcher.plans.walk.run import Contact
from dispatcher.plans.walk.wall_clock import UTC_ZONE, step_time, zone_of


async def steps(
    call: Call, settings: Settings, drafted: Sequence[Step], contact_id: int, enrolled_at: datetime
) -> list[PreviewedStep]:
    """Return the steps for a contact that is enrolled at a time."""
    (contact,) = (await contacts(call.database, [contact_id])).values()
    names = sorted({one.template for one in drafted if one.template is not None})
    stored = await templates.find(call.database, call.workspace, names, PUBLISHED) if names else {}
    found: list[PreviewedStep] = []
    now = start = enrolled_at.timestamp()
    for one in sorted(drafted, key=lambda step: step.step_order):
        at = max(now, _time(settings, one, start, contact))
        if settings.anchor == "previous_step":
            start = at
        now = at
        found.append(await _step(call, one, contact, at, stored))
    return found


def _time(settings: Settings, step: Step, start: float, contact: Contact) -> float:
    own = zone_of(contact.zone) if settings.use_contact_time_zone else None
    return step_time(start, step.day_offset, step.send_hour, own or zone_of(settings.time_zone) or UTC_ZONE)


async def _step(call: Call, step: Step, contact: Contact, at: float, stored: Any) -> PreviewedStep:  # noqa: ANN401 - by name
    recipient = contact.addresses.get(address_kind(step.channel))
    parts: dict[str, str] = {}
    fault = None if recipient is not None else "skipped: no address"
    sources = _sources(step, contact, stored)
    if sources is None:
        fault = f"template: there is no published template {step.template!r}"
    else:
        variables = msgspec.json.encode(
            {"contact": contact.fields, "unsubscribe_url": "https://example.org/unsubscribe"}
        )
        bounds = Bounds.of(call.served.config().limits)
        try:
            _, parts = await call.served.offload.call_if_heavy(
                call.workspace.tenant_id, preview, step.channel, sources, variables.decode(), bounds
            )
        except TemplateError as refused:
            fault = f"{refused.field.removeprefix('template.')}: {refused.reason}"
    when = datetime.fromtimestamp(at, UTC)
    return PreviewedStep(
        id=step.id or 0,
        name=step.name,
        channel=step.channel,
        at=when,
        recipient=recipient,
        parts=parts,
        fault=fault,
        sms=segments_of(step.channel, parts),
    )


def _sources(step: Step, contact: Contact, stored: Any) -> Sources | None:  # noqa: ANN401 - as above
    if step.template is None:
        return Sources(dict(parts_of(step)))
    found = stored.get(step.template)
    if found is None:
        return None
    locales: dict[str, Sources] = found.sources
    return locales[nearest(contact.locale, locales, found.draft.default_locale)]

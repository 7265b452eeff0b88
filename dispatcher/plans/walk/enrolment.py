"""What only an enrolment does in a walk: its days, which pauses of its sequence move, and its sends to a contact."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from dispatcher.plans.plan import Day, Node
from dispatcher.plans.walk.run import Contact, Facts, Order, Pause, Run, Then, Visit
from dispatcher.plans.walk.walkable import Walkable
from dispatcher.plans.walk.wall_clock import UTC_ZONE, step_time, zone_of

GONE: Final = "contact is gone"
STOPPED: Final = "stop_if holds"
NO_ADDRESS: Final = "no address"


class Pace:
    """The days of an enrolment: what they are counted from, and until when pauses are counted in that."""

    def __init__(self, run: Run, contact: Contact | None) -> None:
        self.anchor = run.anchor
        self.paced = run.state.paced
        self._rests = run.state.rests
        self._created_at = run.created_at
        self._contact = contact

    def keep(self, facts: Facts, cursor: dict[str, Visit], nodes: Mapping[str, Node]) -> None:
        """Move the days by the pauses that are over; a step that was due in one of them is due now."""
        for one in merged([*facts.pauses, *self._rests]):
            if one.ended <= self.paced or self.anchor is None:
                continue
            self.anchor += max(0.0, one.ended - max(one.since, self.paced, self._created_at))
            self.paced = one.ended
            for name, visit in cursor.items():
                node = nodes[name]
                if isinstance(node, Day) and visit.until is not None and visit.until > one.ended:
                    cursor[name] = replace(visit, until=self.day(node, self.anchor))

    def then(self, walkable: Walkable, cursor: Mapping[str, Visit], now: float) -> Then | None:
        """What follows when the only step under way is sent; None where only a walk can say it."""
        if self._contact is None or [visit.standing for visit in cursor.values()] != ["sending"]:
            return None
        [(name, visit)] = cursor.items()
        targets = walkable.places[name].targets
        if not targets:
            return Then(node=name, since=visit.since)
        day = targets[0]
        if len(targets) > 1 or day.is_meeting or not isinstance(day.node, Day):
            return None
        anchor = visit.since if walkable.plan.from_previous else self.anchor
        until = self.day(day.node, anchor)
        if until <= now:
            return None
        after = {day.id: Visit("delaying", now, until)}
        return Then(node=name, since=visit.since, cursor=after, until=until, anchor=anchor)

    def day(self, node: Day, anchor: float | None) -> float:
        """When a day begins that is counted from an anchor."""
        own = zone_of(self._contact.zone) if node.contact_zone and self._contact is not None else None
        zone = own or zone_of(node.zone) or UTC_ZONE
        return step_time(self._created_at if anchor is None else anchor, node.days, node.hour, zone)


def merged(pauses: Iterable[Pause]) -> list[Pause]:
    """Pauses in their order, those that overlap as one."""
    found: list[Pause] = []
    for one in sorted(pauses, key=lambda pause: pause.since):
        if found and one.since <= found[-1].ended:
            found[-1] = Pause(found[-1].since, max(found[-1].ended, one.ended))
        else:
            found.append(one)
    return found


def to_contact(order: Order, kind: str, contact: Contact | None) -> Order:
    """An order as it goes to the contact; where that has no such address, nothing is sent."""
    address = None if contact is None else contact.addresses.get(kind)
    if address is None:
        return replace(order, recipients=("",), ended=f"skipped: {NO_ADDRESS}")
    return replace(order, recipients=(address,), locale=None if contact is None else contact.locale)

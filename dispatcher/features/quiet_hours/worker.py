"""The reader of quiet hours: it holds those of all workspaces, and puts off claimed deliveries that may not go now."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from zoneinfo import ZoneInfo

from dispatcher.base import fault_points
from dispatcher.base.values.addresses import Address, address
from dispatcher.db.database import Database
from dispatcher.db.joint_looks import until_poll
from dispatcher.engine.rules.life import Back, Claimed, Lane, Lost, Outcome, Skipped
from dispatcher.features.quiet_hours import store
from dispatcher.features.quiet_hours.rules import Move, Skip, Span, decide, span
from dispatcher.features.quiet_hours.store import Group, Limits, Place, Rule
from dispatcher.features.quiet_hours.zones import zone_for, zones_without_contacts

# A notification acts at once; this interval makes up for a lost one, and sees another time zone of a workspace.
LOOK_SECONDS = 1.0
FREED_PAGE = 1_000
# Of rules and zones; a workspace has recipients in a few zones.
SPANS_MAX = 10_000
# They call programs, and write to nobody.
NOT_FOR_PEOPLE = frozenset({"http", "webhook"})
NO_LIMITS = Limits(None, None)
_CONTACT_KINDS = {"push": "push", "social": "social"}


class QuietHoursReader:
    """Holds the quiet hours as they stand. `changed` asks for another look."""

    def __init__(self, database: Database, changed: asyncio.Event) -> None:
        self._database = database
        self._changed = changed
        self._rules: Mapping[Place, Mapping[str, Rule]] = {}
        # By the version of a rule and the name of a zone.
        self._spans: dict[tuple[int, str], Span] = {}
        self._is_freeing = True

    async def run(self) -> None:
        """Read the quiet hours, for ever."""
        while True:
            self._changed.clear()
            await self._database.persist("quiet hours", self.run_once)
            with suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), until_poll(LOOK_SECONDS))

    async def run_once(self) -> None:
        """Read them once; where they have changed, what earlier ones have moved is due again, a page at a time."""
        seen = await store.standing(self._database)
        if seen != self._rules:
            self._rules = seen
            self._spans.clear()
            self._is_freeing = True
        if self._is_freeing:
            while await store.free(self._database, FREED_PAGE) >= FREED_PAGE:
                pass
            self._is_freeing = False

    def concerns(self, batch: Sequence[Claimed]) -> bool:
        """Whether there are quiet hours for any delivery of a batch, all of one lane; transactional ones have none."""
        if not self._rules or batch[0].lane is Lane.TRANSACTIONAL:
            return False
        return any(
            not item.expired and self._rule(item.tenant_id, item.workspace_id, item.channel) is not None
            for item in batch
        )

    def _rule(self, tenant_id: str, workspace_id: str, channel: str) -> Rule | None:
        rules = self._rules.get((tenant_id, workspace_id))
        if rules is None or channel in NOT_FOR_PEOPLE:
            return None
        return rules.get(channel) or rules.get("")

    async def put_off(self, batch: Sequence[Claimed]) -> Mapping[int, Outcome]:
        """Return what becomes of the deliveries of a batch that may not go now, by id. Those that are moved are Lost:
        nothing is left to write."""
        asked = self._asked(batch)
        addresses: dict[Group, list[str]] = {}
        for group, _, some in asked:
            addresses.setdefault(group, []).extend([one.text for _, one in some])
        database = self._database
        now, zones = await database.persist("quiet hours", lambda: store.zones(database, addresses))
        closed: list[tuple[Claimed, Rule, ZoneInfo, Span]] = []
        for group, rule, some in asked:
            # Mostly no contact of the batch has a time zone, and nobody sleeps.
            if not zones and self._are_all_open(rule, [one for _, one in some], now):
                continue
            for item, one in some:
                zone = zone_for(zones.get((*group, one.text)), one, rule.zone)
                found = self._span(rule, zone, now)
                if not found.is_open:
                    closed.append((item, rule, zone, found))
        return await self._decided(closed) if closed else {}

    def _asked(self, batch: Sequence[Claimed]) -> list[tuple[Group, Rule, list[tuple[Claimed, Address]]]]:
        """Return the deliveries that there are quiet hours for, by the group of their addresses and their rule."""
        found: dict[tuple[str, str, str], tuple[Rule | None, dict[str, list[tuple[Claimed, Address]]]]] = {}
        for item in batch:
            about = item.tenant_id, item.workspace_id, item.channel
            if (known := found.get(about)) is None:
                known = found[about] = self._rule(*about), {}
            rule, kinds = known
            # What has expired ends as such.
            if rule is not None and not item.expired:
                one = address(item.channel, item.recipient)
                kind = _kind(item, one)
                if (some := kinds.get(kind)) is None:
                    some = kinds[kind] = []
                some.append((item, one))
        return [
            ((tenant_id, workspace_id, kind), rule, some)
            for (tenant_id, workspace_id, _), (rule, kinds) in found.items()
            if rule is not None
            for kind, some in kinds.items()
        ]

    def _are_all_open(self, rule: Rule, some: Sequence[Address], now: datetime) -> bool:
        """Whether it is no quiet hour for any of these addresses of one kind, whose contacts have no time zone."""
        return all(
            zone is not None and self._span(rule, zone, now).is_open for zone in zones_without_contacts(some, rule.zone)
        )

    def _span(self, rule: Rule, zone: ZoneInfo, now: datetime) -> Span:
        key = rule.version, zone.key
        found = self._spans.get(key)
        if found is None or found.until <= now:
            if len(self._spans) >= SPANS_MAX:
                self._spans.clear()
            found = self._spans[key] = span(rule.hours, zone, now)
        return found

    async def _decided(self, closed: Sequence[tuple[Claimed, Rule, ZoneInfo, Span]]) -> dict[int, Outcome]:
        database, ids = self._database, [item.id for item, *_ in closed]
        limits = await database.persist("quiet hours", lambda: store.limits(database, ids))
        outcomes: dict[int, Outcome] = {}
        moves: dict[int, tuple[Claimed, Rule, Move]] = {}
        for item, rule, zone, found in closed:
            known = limits.get(item.id, NO_LIMITS)
            match decide(found, zone, known.expires_at, known.resend_until):
                case Skip(reason=reason):
                    outcomes[item.id] = Skipped(reason)
                case Move() as to:
                    moves[item.id] = item, rule, to
                case None:
                    pass
        return outcomes | await self._move(moves) if moves else outcomes

    async def _move(self, moves: Mapping[int, tuple[Claimed, Rule, Move]]) -> dict[int, Outcome]:
        if fault_points.ARMED:
            fault_points.passing("quiet_hours.decided")
        settled = await self._database.persist("quiet hours", lambda: store.move(self._database, moves))
        if fault_points.ARMED:
            fault_points.passing("quiet_hours.moved")
        return {
            number: Lost() if number in settled else Back(LOOK_SECONDS, "its quiet hours have changed")
            for number in moves
        }


def _kind(item: Claimed, one: Address) -> str:
    """Return the kind that an address has among those of contacts."""
    return one.kind if one.kind != "other" else _CONTACT_KINDS.get(item.channel, "chat")

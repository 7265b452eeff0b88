"""The audit: compares the providers' files with the database, delivery by delivery."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import Struct, field

from dispatcher.db.database import Database
from dispatcher.db.health import checks
from dispatcher.selftest.ledger_file import Entry, name_of
from dispatcher.selftest.plan import MARKED_MAX

SHOWN_MAX = 20

_ROWS = """
SELECT d.id, d.idempotency_key AS key, s.status, s.held, s.error, s.provider_message_id, s.token >> 24 AS epoch
  FROM dispatcher.deliveries d LEFT JOIN dispatcher.delivery_state s USING (id) WHERE d.channel = $1
"""


class Tally(Struct):
    """The results of the messages of one class of providers."""

    messages: int = 0
    sent: int = 0
    failed: int = 0
    held: int = 0
    # Of the held ones, those that were accepted: a repetition that did not happen.
    held_accepted: int = 0
    held_max_per_kill: int = 0
    accepted: int = 0
    asked_again: int = 0
    duplicates: int = 0
    lost: int = 0


class Violation(Struct):
    """A broken promise, and some of the deliveries for which it was broken."""

    what: str
    count: int = 0
    ids: list[int] = field(default_factory=list)

    def note(self, delivery_id: int) -> None:
        self.count += 1
        if len(self.ids) < SHOWN_MAX:
            self.ids.append(delivery_id)


class Audit:
    def __init__(self, database: Database, disturbed: Collection[int]) -> None:
        self._database = database
        self._disturbed = disturbed
        self._found: dict[str, Violation] = {}
        self.tallies: dict[str, Tally] = {}

    @property
    def violations(self) -> list[Violation]:
        return list(self._found.values())

    def _note(self, what: str, delivery_id: int) -> None:
        self._found.setdefault(what, Violation(what)).note(delivery_id)

    async def compare(self, name: str, entries: Mapping[str, Entry], messages: int, may_hold: bool) -> None:
        rows = await self._database.fetch(_ROWS, name)
        tally = self.tallies[name] = Tally(messages=messages)
        tally.accepted = sum(entry.accepted > 0 for entry in entries.values())
        tally.asked_again = sum(entry.again for entry in entries.values())
        held: Counter[int] = Counter()
        for row in rows:
            entry = entries.get(row["key"], Entry())
            if entry.accepted > 1:
                tally.duplicates += 1
                self._note(f"{name}: accepted more than once", row["id"])
            if row["held"]:
                held[row["epoch"]] += 1
                tally.held_accepted += entry.accepted > 0
                self._hold(name, row, may_hold)
            else:
                self._end(name, row, entry, tally)
        if len(rows) != messages:
            tally.lost += abs(messages - len(rows))
            self._found["count"] = Violation(f"{name}: {len(rows)} deliveries for {messages} messages", 1)
        tally.held = held.total()
        tally.held_max_per_kill = max(held.values(), default=0)
        if tally.held_max_per_kill > MARKED_MAX:
            self._found[name] = Violation(
                f"{name}: one kill left {tally.held_max_per_kill} held, and marked_max is {MARKED_MAX}", 1
            )

    def _hold(self, name: str, row: Any, may_hold: bool) -> None:  # noqa: ANN401 - a record of asyncpg's
        if not may_hold:
            self._note(f"{name}: held, although it need not be", row["id"])
        elif row["epoch"] not in self._disturbed:
            self._note(f"{name}: held, although nobody had killed or stopped its owner", row["id"])

    def _end(self, name: str, row: Any, entry: Entry, tally: Tally) -> None:  # noqa: ANN401 - as above
        if row["status"] == "failed":
            tally.failed += 1
            if entry.accepted:
                self._note(f"{name}: failed, although the provider has it", row["id"])
            elif not row["error"]:
                tally.lost += 1
                self._note(f"{name}: failed without a reason", row["id"])
            return
        if row["status"] != "sent":
            tally.lost += 1
            self._note(f"{name}: neither sent nor held nor failed", row["id"])
            return
        tally.sent += 1
        if not entry.accepted:
            tally.lost += 1
            self._note(f"{name}: sent, although the provider does not have it", row["id"])
        elif entry.accepted == 1 and row["provider_message_id"] != name_of(entry.first_sequence):
            self._note(f"{name}: sent under the id of another message", row["id"])

    async def check(self) -> None:
        for invariant in checks.invariants():
            found = await checks.check(self._database, invariant)
            if found is not None:
                self._found[invariant] = Violation(f"invariant {invariant}", found.count, found.ids)

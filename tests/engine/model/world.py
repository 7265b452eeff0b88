"""The real side: the store's verbs on a Postgres, one pool a replica, and time that passes when the machine says so."""

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

from dispatcher.config.settings import Database as Settings
from dispatcher.db.database import Database
from dispatcher.db.health import checks
from dispatcher.engine.rules.life import Claimed
from tests.engine.model.protocol import Protocol

T = TypeVar("T")

REPLICAS_MAX = 3

TABLES = (
    "deliveries",
    "delivery_state",
    "claims",
    "instances",
    "delivery_attempts",
    "delivery_evidence",
    "operator_actions",
    "reopened_ends",
    "pauses",
    "parked",
)
TIMES = {
    "deliveries": ("scheduled_for", "expires_at", "created_at"),
    "delivery_state": (
        "run_at",
        "finished_at",
        "expires_at",
        "held_at",
        "settle_after",
        "key_used_at",
        "resend_until",
        "throttled_since",
    ),
    "claims": ("claimed_at",),
    "delivery_attempts": ("ended_at", "next_at"),
    "delivery_evidence": ("seen_at",),
    "operator_actions": ("at",),
    "reopened_ends": ("ended_at",),
    "pauses": ("since", "ended_at"),
}
# Without triggers: rows go and times move as nothing else may do it. One implicit transaction each.
_EMPTY = "SET session_replication_role = replica;" + "".join(f"DELETE FROM dispatcher.{table};" for table in TABLES)
_AS_USUAL = "RESET session_replication_role;"
_VIEW = """
SELECT s.id, l.life, s.attempt, s.attempt_base, s.recoveries, s.token, s.provider,
       s.run_at <= statement_timestamp() AS due,
       array(SELECT ARRAY[a.attempt::text, a.outcome, a.token::text, a.resent_by] FROM dispatcher.delivery_attempts a
              WHERE a.delivery_id = s.id ORDER BY a.attempt) AS attempts,
       array(SELECT ARRAY[e.token::text, e.verdict] FROM dispatcher.delivery_evidence e
              WHERE e.delivery_id = s.id ORDER BY e.token) AS evidence
  FROM dispatcher.delivery_state s JOIN dispatcher.delivery_life l USING (id) ORDER BY s.id
"""


async def _opened(url: str) -> Database:
    """A pool belongs to the loop that it was made on."""
    database = Database(Settings(), url)
    await database.open()
    return database


def _checks() -> str:
    """Every invariant as one question: the price of asking after each step is one round trip."""
    queries = checks._SQL.items()
    return " UNION ALL ".join(
        f"SELECT '{name}' AS invariant, id::bigint FROM ({query}) AS found" for name, query in queries
    )


def _later(seconds: int) -> str:
    moves = (
        f"UPDATE dispatcher.{table} SET "
        + ", ".join(f"{column} = {column} - interval '{seconds} s'" for column in columns)
        for table, columns in TIMES.items()
    )
    return f"SET session_replication_role = replica; {'; '.join(moves)}; {_AS_USUAL}"


class World:
    """A database that many examples use one after another, on an event loop of its own."""

    def __init__(self, url: str) -> None:
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._loop = self._runner.get_loop()
        self.operator, *self._databases = [self.run(_opened(url)) for _ in range(REPLICAS_MAX + 1)]

    def run(self, step: Coroutine[Any, Any, T]) -> T:
        """Take one step to its end."""
        return self._loop.run_until_complete(step)

    def database(self, epoch: int) -> Database:
        """The pool of a replica."""
        return self._databases[epoch % len(self._databases)]

    def empty(self) -> None:
        """As it was when it was new."""
        self.run(self._script(_EMPTY + _AS_USUAL))

    def later(self, seconds: int) -> None:
        """Time passes: everything that has a time is so much older."""
        self.run(self._script(_later(seconds)))

    async def _script(self, text: str) -> None:
        async with self.operator.connection() as connection:
            await connection.execute(text)

    def view(self) -> list[tuple[object, ...]]:
        """Where every delivery stands."""
        return [tuple(row) for row in self.run(self.operator.fetch(_VIEW))]

    def violations(self) -> set[tuple[str, int]]:
        """Invariants that do not hold, each with an id."""
        return {(row["invariant"], row["id"]) for row in self.run(self.operator.fetch(_checks(), 300.0))}

    def close(self) -> None:
        """Let everything go."""
        for database in (self.operator, *self._databases):
            self.run(database.close())
        self._runner.close()


def seen(model: Protocol) -> list[tuple[object, ...]]:
    """The expected rows of the database's view."""
    return [
        (
            one.id,
            one.life,
            one.attempt,
            one.base,
            one.recoveries,
            one.token,
            one.provider,
            one.run_at <= model.now,
            [
                [str(number), kept.outcome, str(kept.token), kept.resent_by]
                for number, kept in enumerate(one.attempts, 1)
            ],
            [[str(token), verdict] for token, verdict in sorted(one.evidence.items())],
        )
        for _, one in sorted(model.deliveries.items())
    ]


def ids(items: list[Claimed]) -> list[int]:
    """The ids of claimed deliveries, in order."""
    return sorted(item.id for item in items)

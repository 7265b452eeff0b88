"""The store of rules, triggers and events."""

from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any, NoReturn

import asyncpg
import msgspec
from msgspec import Raw

from dispatcher.base.errors import Fault, RulesRefused
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.db.tenants import Transaction
from dispatcher.features.rules.models import Decision, EventStep, EventTrigger, Pair, Rule, RuleStep, SavedRule
from dispatcher.features.rules.rules import format_offset, hinted

_SQL = statements(__name__)
_steps = msgspec.json.Decoder(list[EventStep]).decode
_details = msgspec.json.Decoder(list[dict[str, str]]).decode
_pairs = msgspec.json.Decoder(dict[str, Any]).decode

# How long the inbox knows a message id: whoever repeats an event does so within days.
INBOX_SECONDS = 90 * 86_400.0
MANY = "$.events[%s]"
ONE = "$"


@contextmanager
def _refusals() -> Iterator[None]:
    """Raise RulesRefused with all faults where a function of the schema refuses, or JSON cannot be stored."""
    try:
        yield
    except asyncpg.DataError as refused:
        # asyncpg sets the detail without declaring it.
        detail: str | None = getattr(refused, "detail", None)
        message = str(refused.args[0]) if refused.args else str(refused)
        try:
            faults = [Fault(one["path"], one["words"]) for one in _details(detail or "")]
        except (msgspec.MsgspecError, KeyError):
            faults = []
        raise RulesRefused(faults or [Fault("$", message)]) from refused


async def notify(
    database: Database,
    here: Workspace,
    events: str,
    count: int,
    path: str = MANY,
    *,
    explain: bool = False,
    traceparent: str | None = None,
) -> list[list[Decision]]:
    """Take events, a JSON list; return the decisions of each. Raises RulesRefused with every fault."""
    try:
        with _refusals():
            async with database.savepoint():
                rows = await database.fetch(_SQL["notify"], *_place(here), events, path, explain, traceparent)
    except RulesRefused as refused:
        names = [one.name for one in await triggers(database, here)]
        raise RulesRefused(hinted(list(refused.faults), names)) from refused
    answers: list[list[Decision]] = [[] for _ in range(count)]
    for row in rows:
        facts = dict(row)
        place = facts.pop("place")
        answers[place - 1].append(Decision(**facts | {"steps": _steps(row["steps"])}))
    return answers


@asynccontextmanager
async def rolled_back(database: Database) -> AsyncIterator[None]:
    """Undo all that is done within."""
    if not isinstance(database, Transaction):
        raise TypeError("what is to be undone needs a transaction")
    with suppress(_UndoError):
        async with database.savepoint():
            yield
            _undo()


class _UndoError(Exception):
    """Ends what is rolled back."""


def _undo() -> NoReturn:
    raise _UndoError


async def forget(database: Database, page: int) -> int:
    """Delete a page of old events with their decisions; returns their number. Their deliveries stay."""
    return int(await database.value(_SQL["forget"], INBOX_SECONDS, page))


async def note(database: Database, here: Workspace, event_id: int, channel: str, audience: str, **said: Any) -> str:  # noqa: ANN401 - texts
    """Write down what became of a caller's own code; return noted, before or unknown."""
    asked = event_id, channel, audience, said["outcome"], said["error"]
    return str(await database.value(_SQL["note"], *asked, *_place(here)))


async def messages(database: Database, ids: Sequence[int], count: int) -> Sequence[Any]:
    """Return deliveries that were just written, with the content of their templates."""
    return await database.fetch(_SQL["messages"], list(ids), count)


async def put(
    database: Database, here: Workspace, rules: Sequence[Mapping[str, Any]], actor: str, *, check: bool = False
) -> list[SavedRule]:
    """Save rules, all or none; return what was done with each. Raises RulesRefused with every fault."""
    given = msgspec.json.encode(rules).decode()
    try:
        with _refusals():
            async with database.savepoint():
                rows = await database.fetch(_SQL["put"], *_place(here), given, actor, check)
    except RulesRefused as refused:
        names = [one.name for one in await triggers(database, here)]
        raise RulesRefused(hinted(list(refused.faults), names)) from refused
    return [SavedRule(row["name"], row["answer"], row["version"]) for row in rows]


async def listed(database: Database, here: Workspace, behind: str, count: int, trigger: str | None) -> list[Any]:
    """Return rules behind a name, in the order of their names."""
    return [_rule(row) for row in await database.fetch(_SQL["list"], *_place(here), behind, count, trigger)]


async def show(database: Database, here: Workspace, name: str) -> Rule | None:
    """Return a rule by its name, or None."""
    parts = name.split("/")
    if len(parts) != len(("trigger", "channel", "audience")):
        return None
    rows = await database.fetch(_SQL["show"], *_place(here), *parts)
    return msgspec.convert(_rule(rows[0]), Rule) if rows else None


def _rule(row: Any) -> dict[str, Any]:  # noqa: ANN401 - asyncpg's record
    facts = {**row} | msgspec.json.decode(row["document"])
    steps = [
        RuleStep(one["template"], format_offset(one["offset_seconds"]), one["recipients"], one["enabled"], one["order"])
        for one in facts["steps"]
    ]
    return {name: value for name, value in facts.items() if name != "document"} | {"steps": steps}


async def names(database: Database, here: Workspace) -> list[str]:
    """Return the names of all rules."""
    return [row["name"] for row in await database.fetch(_SQL["names"], *_place(here))]


async def switch(database: Database, here: Workspace, name: str, action: str, actor: str) -> str:
    """Enable, disable or delete a rule; return done, same or unknown."""
    return str(await database.value(_SQL["switch"], *_place(here), name, action, actor))


async def triggers(database: Database, here: Workspace, name: str | None = None) -> list[EventTrigger]:
    """Return the catalogue by name, or the one entry of a name."""
    return [
        EventTrigger(
            row["name"],
            row["description"],
            row["variables"],
            Raw(row["sample"].encode()),
            [_pair(pair, fallback) for pair, fallback in sorted(_pairs(row["pairs"]).items())],
            row["own"],
        )
        for row in await database.fetch(_SQL["triggers"], *_place(here), name)
    ]


def _pair(name: str, fallback: Any) -> Pair:  # noqa: ANN401 - one of three words
    channel, _, audience = name.partition("/")
    return Pair(channel=channel, audience=audience, fallback=fallback)


async def put_trigger(database: Database, here: Workspace, name: str, said: Mapping[str, Any], actor: str) -> str:
    """Save an entry of the catalogue; return created, changed or same. Raises RulesRefused with every fault."""
    given = msgspec.json.encode(said).decode()
    with _refusals():
        async with database.savepoint():
            return str(await database.value(_SQL["put_trigger"], *_place(here), name, given, actor))


async def delete_trigger(database: Database, here: Workspace, name: str, actor: str) -> str:
    """Delete an entry of the catalogue; return done, unknown or used."""
    return str(await database.value(_SQL["delete_trigger"], *_place(here), name, actor))


def _place(here: Workspace) -> tuple[str, str]:
    return here.tenant_id, here.workspace_id

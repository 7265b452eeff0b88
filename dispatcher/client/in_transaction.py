"""The client inside a transaction: each call is a SQL function on the caller's own connection."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, nullcontext
from datetime import datetime
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any

import asyncpg
import msgspec

from dispatcher.base.errors import Fault
from dispatcher.base.schema_name import render
from dispatcher.client.answers import Delivery, Deployed, Enrolled, Run, Sent, Triggered
from dispatcher.client.encoding import refused
from dispatcher.client.errors import Conflict, NotFound, Refused, TimedOut
from dispatcher.client.events import Decision
from dispatcher.client.interface import TRANSACTION_SECONDS_MAX, AnyClient
from dispatcher.client.messages import below
from dispatcher.client.sql_errors import error_of

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = asyncpg.Connection[Any] | PoolConnectionProxy[Any]

REASON_CHARACTERS_MAX = 1_000
ID_MAX = 2**63 - 1
# More are not read.
FAULTS_MAX = 100


@cache
def _sql(name: str) -> str:
    return render(resources.files("dispatcher.client").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8"))


class TransactionClient(AnyClient):
    """Calls SQL functions over a connection of the caller's, in whichever transaction that is in.

    What it does is rolled back with that transaction, and visible in it; a refusal leaves it as it was, since each call
    has a savepoint of its own. The connection's role needs USAGE on the schema and EXECUTE on the functions, no table.
    What Postgres itself raises, a lost connection or a serialization failure, comes as asyncpg has it: then it is the
    transaction that has to be tried again.

    Of a message, whether its channel is configured and whether its own template is sound Liquid is not looked at here,
    but when it is sent: it has failed then, and says why. A recipient is required for every channel, and where a key
    exists, nothing else of its message is looked at.
    """

    _patient = False

    def __init__(
        self,
        connection: "Connection",
        *,
        tenant: str = "default",
        workspace: str = "default",
        actor: str | None = None,
        timeout: float = TRANSACTION_SECONDS_MAX,
    ) -> None:
        self._connection = connection
        self._where = (tenant, workspace)
        self._actor = actor
        self._seconds = timeout

    async def _trigger(self, workflow: str, data: bytes, key: str | None, traceparent: str | None) -> Triggered:
        (row,) = await self._fetch("trigger", workflow, data.decode(), key, *self._where, self._actor, traceparent)
        return msgspec.convert(row, Triggered)

    async def _deploy(self, campaign: str, scheduled_for: datetime | None, key: str | None) -> Deployed:
        (row,) = await self._fetch("deploy", campaign, scheduled_for, key, *self._where, self._actor)
        return msgspec.convert(row, Deployed)

    async def _send(self, message: bytes, traceparent: str | None) -> Sent:
        return (await self._insert([message], traceparent))[0]

    async def _send_all(self, messages: Sequence[bytes], traceparent: str | None) -> list[Sent]:
        try:
            return await self._insert(messages, traceparent)
        except Refused as first:
            # Postgres stops at the first of them.
            async with self._rolled_back():
                faults = await self._faults(messages)
            raise refused(faults) if faults else first from None

    async def _insert(self, messages: Sequence[bytes], traceparent: str | None = None) -> list[Sent]:
        rows = await self._fetch("send", (b"[" + b",".join(messages) + b"]").decode(), *self._where, traceparent)
        return msgspec.convert(rows, list[Sent])

    async def _faults(self, messages: Sequence[bytes]) -> list[Fault]:
        """Return the faults of all messages. Those without a fault are written: the caller rolls back."""
        faults: list[Fault] = []
        for number, message in enumerate(messages):
            try:
                await self._insert([message])
            except Refused as one:
                faults += below(number, one.faults)
            if len(faults) >= FAULTS_MAX:
                break
        return faults

    async def enrol(self, sequence: str, contact: int | str) -> Enrolled:
        """Enrol a contact."""
        (row,) = await self._fetch("enrol", sequence, *_contact(contact), *self._where, self._actor)
        return msgspec.convert(row, Enrolled)

    async def contact_event(self, event: str, contact: int | str) -> int:
        """Tell of an event of a contact."""
        return int(await self._value("contact_event", event, *_contact(contact), *self._where, self._actor))

    async def _notify(self, events: bytes, count: int, traceparent: str | None) -> list[list[Decision]]:
        answers: list[list[Decision]] = [[] for _ in range(count)]
        for row in await self._fetch("notify", events.decode(), *self._where, traceparent):
            facts = row | {"steps": msgspec.json.decode(row["steps"])}
            answers[facts.pop("place") - 1].append(msgspec.convert(facts, Decision))
        return answers

    def _check_fallbacks(self) -> None:
        if self._connection.is_in_transaction():
            words = "a fallback runs when its transaction is committed: call run_fallbacks then"
            raise Conflict(words, kind="conflict")

    async def _note_fallback(self, decision: Decision, outcome: str, error: str | None) -> None:
        asked = decision.event_id, decision.channel, decision.audience, outcome, error
        await self._value("note_fallback", *asked, *self._where)

    async def status(self, run: int) -> Run:
        """Return the run."""
        rows = await self._fetch("status", _id(run, "run"), *self._where)
        if not rows:
            raise _unknown(f"run {run}")
        row = rows[0]
        documents = {name: msgspec.json.decode(row[name]) for name in ("input", "context")}
        return msgspec.convert({**row, **documents}, Run)

    def _check_wait(self) -> None:
        if self._connection.is_in_transaction():
            raise Conflict("a run is waited for when its transaction is over: nobody sees it before", kind="conflict")

    async def _signal(self, run: int, event: str, data: bytes) -> None:
        answer = await self._value("signal", _id(run, "run"), event, data.decode(), *self._where, self._actor)
        _done(answer, "accepted", f"run {run}")

    async def cancel(self, run: int, *, reason: str) -> None:
        """Cancel a run."""
        answer = await self._value("cancel", _id(run, "run"), _checked_reason(reason), *self._where, self._actor)
        _done(answer, "cancelled", f"run {run}")

    async def delivery(self, delivery: int | str) -> Delivery:
        """Return a delivery."""
        named, *parameters = _named(delivery)
        rows = await self._fetch("delivery", *parameters, *self._where)
        if not rows:
            raise _unknown(str(named))
        return msgspec.convert(rows[0], Delivery)

    async def cancel_delivery(self, delivery: int | str, *, reason: str) -> None:
        """Cancel a delivery."""
        named, *parameters = _named(delivery)
        answer = await self._value("cancel_delivery", *parameters, _checked_reason(reason), *self._where, self._actor)
        _done(answer, "cancelled", str(named))

    @asynccontextmanager
    async def _rolled_back(self) -> AsyncIterator[None]:
        """Open a transaction, or a savepoint, that is rolled back.

        It is begun and ended whole: a BEGIN or a ROLLBACK that is cancelled half-way leaves the connection in a
        transaction that is never ended, and what is sent later would never be committed.
        """
        transaction = self._connection.transaction()
        begun = asyncio.ensure_future(transaction.start())
        try:
            await self._whole(begun)
            yield
        finally:
            if begun.done() and begun.exception() is None:
                await self._whole(asyncio.ensure_future(transaction.rollback()))

    async def _whole(self, step: asyncio.Future[None]) -> None:
        """Wait for a step; a cancellation takes effect when it is done."""
        try:
            await asyncio.shield(step)
        except asyncio.CancelledError:
            await asyncio.wait([step], timeout=self._seconds)
            raise

    async def _value(self, name: str, *asked: object) -> str:
        (row,) = await self._fetch(name, *asked)
        return str(next(iter(row.values())))

    async def _fetch(self, name: str, *asked: object) -> list[dict[str, Any]]:
        # Outside of a transaction the statement is one by itself.
        savepoint = self._connection.transaction() if self._connection.is_in_transaction() else nullcontext()
        try:
            async with savepoint:
                return [dict(row) for row in await self._connection.fetch(_sql(name), *asked, timeout=self._seconds)]
        except asyncpg.PostgresError as fault:
            error = error_of(fault)
            if error is None:
                raise
            raise error from fault
        except TimeoutError:
            raise TimedOut(f"the database has not answered within {self._seconds:g} s") from None


def _named(delivery: int | str) -> tuple[object, ...]:
    """Return a delivery's name for messages, its id and its key."""
    if isinstance(delivery, int):
        return f"delivery {delivery}", _id(delivery, "delivery"), None
    return "delivery with this key", None, delivery


def _contact(contact: int | str) -> tuple[str | None, int | None]:
    """Return a contact's key and its id."""
    return (None, _id(contact, "contact")) if isinstance(contact, int) else (contact, None)


def _id(number: int, noun: str) -> int:
    """Return an id that can exist; any other number is not found."""
    if not 0 < number <= ID_MAX:
        raise _unknown(f"{noun} {number}")
    return number


def _checked_reason(reason: str) -> str:
    if not reason.strip() or len(reason) > REASON_CHARACTERS_MAX:
        raise refused([Fault("$.reason", f"expected 1 to {REASON_CHARACTERS_MAX} characters")])
    return reason


def _done(answer: str, good: str, what: str) -> None:
    match answer:
        case "unknown":
            raise _unknown(what)
        case "stopped":
            words = f"{what} is not sent again, but held: an earlier attempt may have gone out"
            raise Conflict(words, kind="conflict")
        case _ if answer != good:
            raise Conflict(f"{what} is {answer}: too late", kind="conflict")


def _unknown(what: str) -> NotFound:
    return NotFound(f"there is no {what}", kind="not-found")

"""The client inside a transaction: each call is a SQL function on the caller's own connection."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, overload

import asyncpg
import msgspec

from dispatcher.base.errors import Fault
from dispatcher.base.schema_name import render
from dispatcher.client.answers import Delivery, Message, Run, Sent, Triggered
from dispatcher.client.encoding import json_of, refused
from dispatcher.client.errors import Conflict, NotFound, Refused, TimedOut
from dispatcher.client.interface import POLL_SECONDS, WAIT_SECONDS, OnProgress
from dispatcher.client.messages import below, written
from dispatcher.client.sql_errors import error_of
from dispatcher.client.waiting import wait

if TYPE_CHECKING:
    from asyncpg.pool import PoolConnectionProxy

    Connection = asyncpg.Connection[Any] | PoolConnectionProxy[Any]

CALL_SECONDS_MAX = 30.0
REASON_CHARACTERS_MAX = 1_000
ID_MAX = 2**63 - 1
# Beyond these nobody reads on.
FAULTS_MAX = 100


@cache
def _sql(name: str) -> str:
    return render(resources.files("dispatcher.client").joinpath("sql", f"{name}.sql").read_text(encoding="utf-8"))


class TransactionClient:
    """Talks to the database over a connection of the caller's, in whichever transaction that is in.

    What it does is rolled back with that transaction, and visible in it; a refusal leaves it as it was, since each call
    has a savepoint of its own. The connection's role needs USAGE on the schema and EXECUTE on the functions, no table.
    What Postgres itself raises, a lost connection or a serialization failure, comes as asyncpg has it: then it is the
    transaction that has to be tried again.

    Of a message, whether its channel is configured and whether its own template is sound Liquid is not looked at here,
    but when it is sent: it has failed then, and says why. A recipient is required for every channel, and where a key
    exists, nothing else of its message is looked at.
    """

    def __init__(
        self,
        connection: "Connection",
        *,
        tenant: str = "default",
        workspace: str = "default",
        actor: str | None = None,
        timeout: float = CALL_SECONDS_MAX,
    ) -> None:
        self._connection = connection
        self._where = (tenant, workspace)
        self._actor = actor
        self._seconds = timeout

    async def trigger(
        self, workflow: str, data: Mapping[str, Any] | None = None, *, key: str | None = None
    ) -> Triggered:
        """Start a run of a workflow; raises Refused with everything that is missing.

        The key starts one run: who triggers with it again gets the first one, as a duplicate.
        """
        given = json_of({} if data is None else data).decode()
        (row,) = await self._fetch("trigger", workflow, given, key, *self._where, self._actor)
        return msgspec.convert(row, Triggered)

    @overload
    async def send(self, messages: Message) -> Sent: ...
    @overload
    async def send(self, messages: Sequence[Message]) -> list[Sent]: ...
    async def send(self, messages: Message | Sequence[Message]) -> Sent | list[Sent]:
        """Send one message, or many: all of them, or none and Refused with the faults of all."""
        if isinstance(messages, Message):
            return (await self._send(written([messages])))[0]
        lines = written(messages)
        try:
            return await self._send(lines)
        except Refused as first:
            # Postgres stops at the first of them.
            async with self._undone():
                faults = await self._faults(lines)
            raise refused(faults) if faults else first from None

    async def _send(self, lines: Sequence[bytes]) -> list[Sent]:
        rows = await self._fetch("send", (b"[" + b",".join(lines) + b"]").decode(), *self._where)
        return msgspec.convert(rows, list[Sent])

    async def _faults(self, lines: Sequence[bytes]) -> list[Fault]:
        """What is wrong with each; what is written meanwhile is undone by whoever asks."""
        faults: list[Fault] = []
        for number, line in enumerate(lines):
            try:
                await self._send([line])
            except Refused as one:
                faults += below(number, one.faults)
            if len(faults) >= FAULTS_MAX:
                break
        return faults

    async def status(self, run: int) -> Run:
        """Where a run stands."""
        rows = await self._fetch("status", _id(run, "run"), *self._where)
        if not rows:
            raise _unknown(f"run {run}")
        row = rows[0]
        documents = {name: msgspec.json.decode(row[name]) for name in ("input", "context")}
        return msgspec.convert({**row, **documents}, Run)

    async def wait(
        self,
        run: int,
        *,
        on_progress: OnProgress | None = None,
        timeout: float = WAIT_SECONDS,  # noqa: ASYNC109 - its error names the run
        poll: float = POLL_SECONDS,
    ) -> Run:
        """The run, when it has ended, well or not; WaitTimedOut where it has not by then.

        `on_progress` is called with each state that is not the one before, the first and the last included. What it
        raises ends the waiting, and the run goes on. Inside a transaction it is refused: a run that was triggered there
        goes nowhere before the transaction is over.
        """
        if self._connection.is_in_transaction():
            raise Conflict("a run is waited for when its transaction is over: nobody sees it before", kind="conflict")
        return await wait(run, self.status, on_progress, seconds=timeout, poll=poll, patient=False)

    async def signal(self, run: int, event: str, data: Mapping[str, Any] | None = None) -> None:
        """Send a run an event. It is kept for the node that waits for it. Conflict where the run is over.

        Nobody walks the run before the transaction is over.
        """
        given = json_of({} if data is None else data).decode()
        answer = await self._value("signal", _id(run, "run"), event, given, *self._where, self._actor)
        _done(answer, "accepted", f"run {run}")

    async def cancel(self, run: int, *, reason: str) -> None:
        """Cancel a run: it sends nothing more. Conflict where it is over."""
        answer = await self._value("cancel", _id(run, "run"), _why(reason), *self._where, self._actor)
        _done(answer, "cancelled", f"run {run}")

    async def delivery(self, delivery: int | str) -> Delivery:
        """Where a delivery stands, by its id (a number) or its key (a text)."""
        what, *asked = _named(delivery)
        rows = await self._fetch("delivery", *asked, *self._where)
        if not rows:
            raise _unknown(str(what))
        return msgspec.convert(rows[0], Delivery)

    async def cancel_delivery(self, delivery: int | str, *, reason: str) -> None:
        """Not send a delivery, by its id or its key. Conflict where it is too late."""
        what, *asked = _named(delivery)
        answer = await self._value("cancel_delivery", *asked, _why(reason), *self._where, self._actor)
        _done(answer, "cancelled", str(what))

    @asynccontextmanager
    async def _undone(self) -> AsyncIterator[None]:
        """A transaction, or a savepoint, of which nothing stays.

        It is begun and ended whole: a BEGIN or a ROLLBACK that is cancelled half-way leaves the connection in a
        transaction that nobody knows of, and what is sent later would never be committed.
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
        """Wait for a step; who is cancelled meanwhile is so when it is done."""
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
        kept = self._connection.transaction() if self._connection.is_in_transaction() else nullcontext()
        try:
            async with kept:
                return [dict(row) for row in await self._connection.fetch(_sql(name), *asked, timeout=self._seconds)]
        except asyncpg.PostgresError as fault:
            error = error_of(fault)
            if error is None:
                raise
            raise error from fault
        except TimeoutError:
            raise TimedOut(f"the database has not answered within {self._seconds:g} s") from None


def _named(delivery: int | str) -> tuple[object, ...]:
    """What a delivery is called, its id and its key."""
    if isinstance(delivery, int):
        return f"delivery {delivery}", _id(delivery, "delivery"), None
    return "delivery with this key", None, delivery


def _id(number: int, what: str) -> int:
    """What cannot be an id is the id of nothing."""
    if not 0 < number <= ID_MAX:
        raise _unknown(f"{what} {number}")
    return number


def _why(reason: str) -> str:
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

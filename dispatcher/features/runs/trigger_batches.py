"""Batches of triggers: what arrives while others are being written is written with the next ones, in one transaction.

A trigger alone costs a round trip, a look at its workflow and a commit to disk. Under load all of that is shared, and
when there is no load nobody waits: what comes while nothing is under way is written at once.

An application that triggers inside a transaction of its own keeps its key locked for as long as that lasts. Whoever
comes with the same key has to wait for its end, and those who were to be written with him do not.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

import asyncpg

from dispatcher.base.errors import TriggerRefused
from dispatcher.base.workspace import Workspace
from dispatcher.db import tenants
from dispatcher.db.database import Database
from dispatcher.features.runs import store
from dispatcher.features.runs.models import Triggered
from dispatcher.features.runs.store import Trigger
from dispatcher.http.server.connection_shares import PATIENT_MAX

# More at a time makes the last of them wait for longer, and saves nothing more.
BATCH_MAX = 200
# Transactions under way: while one is on its way to disk another one is made.
UNDER_WAY_MAX = 2
# Longer than a transaction of ours takes: what is locked for longer is so by somebody else.
LOCK_SECONDS = 0.25
# Connections on which triggers are written alone.
APART_MAX = 1

_Waiting: TypeAlias = "tuple[Trigger, asyncio.Future[Triggered]]"


class TriggerBatches:
    """Writes the triggers of one process."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database
        # Of each workflow, in the order in which they are taken.
        self._waiting: dict[tuple[Workspace, str], list[_Waiting]] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self._apart: set[asyncio.Task[None]] = set()
        self._alone = asyncio.Semaphore(APART_MAX)
        self._patient = asyncio.Semaphore(PATIENT_MAX)

    async def start(self, asked: Trigger) -> Triggered:
        """The run of a trigger, as if it had come alone; raises TriggerRefused."""
        told: asyncio.Future[Triggered] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault((asked.workspace, asked.workflow), []).append((asked, told))
        if len(self._under_way) < UNDER_WAY_MAX:
            task = asyncio.create_task(self._write())
            self._under_way.add(task)
        return await told

    async def _write(self) -> None:
        """Write what waits, one workflow after the other, until nothing does."""
        try:
            while self._waiting:
                which = next(iter(self._waiting))
                waiting = self._waiting.pop(which)
                if waiting[BATCH_MAX:]:
                    # Behind the other workflows.
                    self._waiting[which] = waiting[BATCH_MAX:]
                # Who has gone meanwhile has not been promised anything.
                batch = [one for one in waiting[:BATCH_MAX] if not one[1].done()]
                if batch:
                    await self._tell(batch)
        finally:
            # Here, and not in a callback of the task: whoever came before that ran would be left waiting.
            self._under_way -= {asyncio.current_task()}

    async def _tell(self, batch: list[_Waiting]) -> None:
        answers: Sequence[Triggered | Exception]
        try:
            answers = await self._written(batch, LOCK_SECONDS)
        except TriggerRefused as refused:
            if batch[1:]:
                for one in batch:
                    await self._tell([one])
                return
            answers = [refused]
        except asyncpg.LockNotAvailableError:
            # Which of them has to wait is not known.
            for one in batch:
                task = asyncio.create_task(self._tell_apart(one))
                self._apart.add(task)
                task.add_done_callback(self._apart.discard)
            return
        except Exception as fault:
            answers = [fault] * len(batch)
        for one, answer in zip(batch, answers, strict=True):
            _answer(one, answer)

    async def _tell_apart(self, one: _Waiting) -> None:
        """Write one alone, at once where it can be, or when what it needs is no longer locked."""
        try:
            async with self._alone:
                answer = (await self._written([one], LOCK_SECONDS))[0]
        except asyncpg.LockNotAvailableError:
            await self._tell_patiently(one)
        except Exception as fault:
            _answer(one, fault)
        else:
            _answer(one, answer)

    async def _tell_patiently(self, one: _Waiting) -> None:
        async with self._patient:
            if one[1].done():
                return
            try:
                _answer(one, (await self._written([one], None))[0])
            except Exception as fault:
                _answer(one, fault)

    async def _written(self, batch: list[_Waiting], lock_seconds: float | None) -> Sequence[Triggered | TriggerRefused]:
        whose = batch[0][0].workspace
        async with tenants.transaction(self._database(), whose, lock_seconds=lock_seconds) as inside:
            return await store.trigger_many(inside, [asked for asked, _ in batch])


def _answer(one: _Waiting, answer: Triggered | Exception) -> None:
    _, told = one
    if told.done():
        return
    if isinstance(answer, Exception):
        told.set_exception(answer)
    else:
        told.set_result(answer)

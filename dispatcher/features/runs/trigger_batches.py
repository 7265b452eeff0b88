"""Trigger batches: triggers that arrive while others are being written share the next transaction.

A trigger alone costs a round trip, a look at its workflow and a commit to disk. Under load a batch shares all of that;
without load a trigger is written at once.

An application that triggers inside its own transaction locks its key until that ends. A trigger with the same key waits
for that end, and the rest of its batch does not.
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
# Longer than a transaction of ours takes: a lock that is held for longer is held by an application.
LOCK_SECONDS = 0.25
# Connections on which triggers are written alone at first.
ALONE_MAX = 1

_Waiting: TypeAlias = "tuple[Trigger, asyncio.Future[Triggered]]"


class TriggerBatches:
    """The writer of the triggers of one process."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database
        # By workflow, in the order in which they are taken.
        self._waiting: dict[tuple[Workspace, str], list[_Waiting]] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self._alone: set[asyncio.Task[None]] = set()
        self._quick = asyncio.Semaphore(ALONE_MAX)
        self._patient = asyncio.Semaphore(PATIENT_MAX)

    async def start(self, asked: Trigger) -> Triggered:
        """Return the run of a trigger. Raises TriggerRefused."""
        answered: asyncio.Future[Triggered] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault((asked.workspace, asked.workflow), []).append((asked, answered))
        if len(self._under_way) < UNDER_WAY_MAX:
            task = asyncio.create_task(self._write())
            self._under_way.add(task)
        return await answered

    async def _write(self) -> None:
        """Write the waiting triggers, one workflow after the other, until there are none."""
        try:
            while self._waiting:
                which = next(iter(self._waiting))
                waiting = self._waiting.pop(which)
                if waiting[BATCH_MAX:]:
                    # Behind the other workflows.
                    self._waiting[which] = waiting[BATCH_MAX:]
                # A caller that was cancelled meanwhile has not been promised anything.
                batch = [one for one in waiting[:BATCH_MAX] if not one[1].done()]
                if batch:
                    await self._write_batch(batch)
        finally:
            # Not in a callback of the task: a trigger that came before the callback would wait for ever.
            self._under_way -= {asyncio.current_task()}

    async def _write_batch(self, batch: list[_Waiting]) -> None:
        answers: Sequence[Triggered | Exception]
        try:
            answers = await self._written(batch, LOCK_SECONDS)
        except TriggerRefused as refused:
            if batch[1:]:
                for one in batch:
                    await self._write_batch([one])
                return
            answers = [refused]
        except asyncpg.LockNotAvailableError:
            # It is not known which of them has to wait.
            for one in batch:
                task = asyncio.create_task(self._write_alone(one))
                self._alone.add(task)
                task.add_done_callback(self._alone.discard)
            return
        except Exception as fault:
            answers = [fault] * len(batch)
        for one, answer in zip(batch, answers, strict=True):
            _answer(one, answer)

    async def _write_alone(self, one: _Waiting) -> None:
        """Write one trigger at once, or if its key is locked for long, on a connection that may wait."""
        answer: Triggered | Exception
        for slots, lock_seconds in ((self._quick, LOCK_SECONDS), (self._patient, None)):
            async with slots:
                if one[1].done():
                    return
                try:
                    (answer,) = await self._written([one], lock_seconds)
                except asyncpg.LockNotAvailableError as fault:
                    if lock_seconds is not None:
                        continue
                    answer = fault
                except Exception as fault:
                    answer = fault
            _answer(one, answer)
            return

    async def _written(self, batch: list[_Waiting], lock_seconds: float | None) -> Sequence[Triggered | TriggerRefused]:
        workspace = batch[0][0].workspace
        async with tenants.transaction(self._database(), workspace, lock_seconds=lock_seconds) as inside:
            return await store.trigger_many(inside, [asked for asked, _ in batch])


def _answer(one: _Waiting, answer: Triggered | Exception) -> None:
    _, answered = one
    if answered.done():
        return
    if isinstance(answer, Exception):
        answered.set_exception(answer)
    else:
        answered.set_result(answer)

"""Together: triggers that arrive while others are being written are written with the next ones, in one transaction.

A trigger alone costs a round trip, a look at its workflow and a commit to disk. Under load all of that is shared, and
when there is no load nobody waits: what comes while nothing is under way is written at once.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeAlias

from dispatcher.errors import TriggerRefused
from dispatcher.store import runs, tenants
from dispatcher.store.database import Database
from dispatcher.store.runs import Trigger, Triggered
from dispatcher.store.templates import Workspace

# More at a time makes the last of them wait for longer, and saves nothing more.
BATCH_MAX = 200
# Transactions under way: while one is on its way to disk another one is made.
UNDER_WAY_MAX = 2

_Waiting: TypeAlias = "tuple[Trigger, asyncio.Future[Triggered]]"


class Together:
    """Writes the triggers of one process."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database
        # Of each workflow, in the order in which they are taken.
        self._waiting: dict[tuple[Workspace, str], list[_Waiting]] = {}
        self._under_way: set[asyncio.Task[None]] = set()

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
            async with tenants.transaction(self._database(), batch[0][0].workspace) as inside:
                answers = await runs.trigger_many(inside, [asked for asked, _ in batch])
        except TriggerRefused as refused:
            if batch[1:]:
                for one in batch:
                    await self._tell([one])
                return
            answers = [refused]
        except Exception as fault:
            answers = [fault] * len(batch)
        for (_, told), answer in zip(batch, answers, strict=True):
            if told.done():
                continue
            if isinstance(answer, Exception):
                told.set_exception(answer)
            else:
                told.set_result(answer)

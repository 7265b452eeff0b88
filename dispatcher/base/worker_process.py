"""The worker process: calls that would hold the event loop, one at a time, round robin by tenant.

A call that is lost (its process was killed, or took longer than any sound call does) raises CallLost. The process is
started by the first call, and again by the first one after it was lost.
"""

import asyncio
import os
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import TypeVar, TypeVarTuple

import anyio
from anyio import BrokenWorkerProcess, CapacityLimiter, to_process

from dispatcher.base.errors import CallLost, NeedsWorker

# The event loop and Postgres go first: with one of two processors to itself, a worker would leave them the other one.
NICE = 5
# A hundred times what a template may take, for a machine that is busy.
SECONDS_MAX = 10.0

A = TypeVarTuple("A")
T = TypeVar("T")


class Offload:
    """The calls of one kind; each kind has a process of its own."""

    def __init__(self, seconds_max: float = SECONDS_MAX) -> None:
        # As for this program itself: nothing is imported from the working directory.
        os.environ.setdefault("PYTHONSAFEPATH", "1")
        self._seconds_max = seconds_max
        self._limiter = CapacityLimiter(1)
        self._is_busy = False
        # Waiting calls by tenant, in the order of their turns.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def call(self, tenant: str, function: Callable[[*A], T], *given: *A) -> T:
        """Return the result of a module's function, when it is the tenant's turn."""
        async with self._turn(tenant):
            try:
                with anyio.fail_after(self._seconds_max):
                    return await self._call(function, given)
            except TimeoutError as fault:
                raise CallLost(f"{function.__name__}: not done within {self._seconds_max:g} s") from fault
            except BrokenWorkerProcess as fault:
                raise CallLost(f"{function.__name__}: {type(fault).__name__}") from fault

    async def _call(self, function: Callable[[*A], T], given: tuple[*A]) -> T:
        run = partial(to_process.run_sync, _with_low_priority, function, given, cancellable=True, limiter=self._limiter)
        try:
            return await run()
        except BrokenWorkerProcess:
            # It may have been killed before it was called: then another one answers.
            return await run()

    async def call_if_heavy(self, tenant: str, function: Callable[[bool, *A], T], *given: *A) -> T:
        """Return the result of a function, made here, or in the process if it raises NeedsWorker here."""
        try:
            return function(True, *given)
        except NeedsWorker:
            return await self.call(tenant, function, False, *given)

    @asynccontextmanager
    async def _turn(self, tenant: str) -> AsyncIterator[None]:
        if self._is_busy:
            waiting = asyncio.get_running_loop().create_future()
            self._waiting.setdefault(tenant, deque()).append(waiting)
            try:
                await waiting
            except asyncio.CancelledError:
                # It may be our turn already.
                if waiting.done() and not waiting.cancelled():
                    self._next()
                raise
        self._is_busy = True
        try:
            yield
        finally:
            self._next()

    def _next(self) -> None:
        """Give the turn to the tenant that has waited longest for one."""
        while self._waiting:
            tenant, queue = next(iter(self._waiting.items()))
            del self._waiting[tenant]
            first = queue.popleft()
            if queue:
                self._waiting[tenant] = queue
            if not first.done():
                first.set_result(None)
                return
        self._is_busy = False


def _with_low_priority(function: Callable[[*A], T], given: tuple[*A]) -> T:
    """Call a function with a low priority of the processor."""
    if os.getpriority(os.PRIO_PROCESS, 0) < NICE:
        os.setpriority(os.PRIO_PROCESS, 0, NICE)
    return function(*given)

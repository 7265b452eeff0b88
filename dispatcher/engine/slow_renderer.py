"""The slow renderer: renders in the worker process what would hold the event loop.

A few deliveries of each tenant and lane wait for the worker. The others go back and are due when their turn may come:
they take no room from others in their lane, and are not looked at before.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import structlog
from anyio.abc import TaskGroup
from msgspec import Struct

from dispatcher.base.clock import Clock
from dispatcher.base.errors import CallLost
from dispatcher.base.worker_process import Offload
from dispatcher.engine.rules.life import Back, Claimed, Failed, Lane
from dispatcher.engine.streams import Inbox, Rendered
from dispatcher.liquid.template import Bounds, Sources
from dispatcher.liquid.worker_functions import QUICK_SECONDS, Rendering, render

log = structlog.get_logger(__name__)

# Of one tenant and lane: enough for the worker never to wait for a claim.
WAITING_MAX = 8
# A guess too long is corrected after this.
BACK_SECONDS_MAX = 60.0
# What a rendering takes until some have been seen, and the weight of the newest in their average.
CALL_SECONDS = 0.05
NEWEST_SHARE = 0.2
# A call that is lost says nothing about its delivery: the machine may have been asleep. A second one does.
LOST_WAIT_SECONDS = 1.0
LOST_MAX = 2
LOST_KEPT_MAX = 1_000

Turn = tuple[str, Lane]


class Slow(Struct, frozen=True):
    """A delivery whose template is for the worker process."""

    item: Claimed
    variables: str
    options: Mapping[str, Any]
    sources: Sources


class SlowRenderer:
    """Renders for one epoch. `quick` is told of templates that need the worker no more."""

    def __init__(
        self,
        send: Callable[[Sequence[Rendered]], None],
        quick: Callable[[str], None],
        inbox: Inbox,
        clock: Clock,
        bounds: Callable[[], Bounds],
    ) -> None:
        self._offload = Offload()
        self._send = send
        self._quick = quick
        self._inbox = inbox
        self._clock = clock
        self._bounds = bounds
        self._tasks: TaskGroup | None = None
        self._under_way: set[anyio.CancelScope] = set()
        self._waiting: Counter[Turn] = Counter()
        # When the worker may have come to the last one that went back.
        self._free_at: OrderedDict[Turn, float] = OrderedDict()
        self._call_seconds = CALL_SECONDS
        self._lost: OrderedDict[int, int] = OrderedDict()

    async def run(self, renderer: Callable[[], Any]) -> None:
        """Render as long as the renderer hands over, and then what is left."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            await renderer()

    def stop(self) -> None:
        """Give back what waits, and all that is still handed over."""
        self._tasks = None
        for scope in self._under_way:
            scope.cancel()

    def take(self, item: Claimed, variables: str, options: Mapping[str, Any], sources: Sources) -> None:
        """Render it, or give it back until its turn may come."""
        slow = Slow(item, variables, options, sources)
        turn = item.tenant_id, item.lane
        if self._tasks is None:
            self._inbox.put(item, Back(0.0, "draining"))
        elif self._waiting[turn] >= WAITING_MAX:
            self._inbox.put(item, Back(self._wait(turn), "waits for its tenant's turn at the worker process"))
        else:
            self._waiting[turn] += 1
            self._tasks.start_soon(self._render, turn, slow)

    def _wait(self, turn: Turn) -> float:
        """How long until the worker has done what this tenant has before this one."""
        now = self._clock.monotonic()
        each = self._call_seconds * len(self._waiting)
        queued_until = now + each * WAITING_MAX
        at = max(self._free_at.pop(turn, 0.0), queued_until) + each
        self._free_at[turn] = at
        while self._free_at and next(iter(self._free_at.values())) < now:
            self._free_at.popitem(last=False)
        return min(at - now, BACK_SECONDS_MAX)

    async def _render(self, turn: Turn, slow: Slow) -> None:
        item = slow.item
        given = self._bounds(), item.template, slow.sources, slow.variables
        with anyio.CancelScope() as scope:
            self._under_way.add(scope)
            if self._tasks is None:
                # Told to stop before it began.
                scope.cancel()
            try:
                self._settle(slow, await self._offload.call(turn[0], render, *given))
            except CallLost as fault:
                log.warning("render.lost", delivery_id=item.id, error=str(fault))
                self._inbox.put(item, self._after_loss(item))
            finally:
                self._under_way.discard(scope)
                self._waiting[turn] -= 1
                if not self._waiting[turn]:
                    del self._waiting[turn]
        if scope.cancelled_caught:
            self._inbox.put(item, Back(0.0, "draining"))

    def _settle(self, slow: Slow, rendering: Rendering) -> None:
        self._call_seconds += NEWEST_SHARE * (rendering.cpu_seconds - self._call_seconds)
        if rendering.cpu_seconds < QUICK_SECONDS:
            self._quick(slow.item.template)
        if rendering.parts is not None:
            self._send([Rendered(slow.item, rendering.parts, slow.options)])
        else:
            self._inbox.put(slow.item, Failed(str(rendering.fault)))

    def _after_loss(self, item: Claimed) -> Back | Failed:
        lost = self._lost.pop(item.id, 0) + 1
        if lost >= LOST_MAX:
            return Failed("template: cannot be rendered: takes too long")
        self._lost[item.id] = lost
        if len(self._lost) > LOST_KEPT_MAX:
            self._lost.popitem(last=False)
        return Back(LOST_WAIT_SECONDS, "its rendering was lost")

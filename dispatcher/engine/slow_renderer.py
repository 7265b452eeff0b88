"""The slow renderer: renders in the worker process what would hold the event loop.

A few deliveries of each tenant and lane wait for the worker. The others go back and are due when the worker may be free
for them: they take no room from others in their lane, and are not looked at before.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import anyio
import structlog
from anyio.abc import TaskGroup

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
# The estimate of a rendering before the first, and the weight of the newest in their average.
CALL_SECONDS = 0.05
NEWEST_SHARE = 0.2
# One lost call may be the machine's fault, which may have been asleep. A second one is the delivery's.
LOST_WAIT_SECONDS = 1.0
LOST_MAX = 2
LOST_KEPT_MAX = 1_000

TenantLane = tuple[str, Lane]


class SlowRenderer:
    """Renders for one epoch. `quick` gets the keys of templates that no longer need the worker."""

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
        self._waiting: Counter[TenantLane] = Counter()
        # When the worker may be free for the last delivery that went back.
        self._free_at: OrderedDict[TenantLane, float] = OrderedDict()
        self._call_seconds = CALL_SECONDS
        self._lost: OrderedDict[int, int] = OrderedDict()

    async def run(self, renderer: Callable[[], Any]) -> None:
        """Render while the renderer runs, and then what is left."""
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            await renderer()

    def stop(self) -> None:
        """Give back what waits, and what is taken from now on."""
        self._tasks = None
        for scope in self._under_way:
            scope.cancel()

    def take(self, item: Claimed, variables: str, options: Mapping[str, Any], sources: Sources) -> None:
        """Render it, or give it back until the worker may be free for it."""
        tenant_lane = item.tenant_id, item.lane
        if self._tasks is None:
            self._inbox.put(item, Back(0.0, "draining"))
        elif self._waiting[tenant_lane] >= WAITING_MAX:
            self._inbox.put(item, Back(self._wait(tenant_lane), "waits for its tenant's turn at the worker process"))
        else:
            self._waiting[tenant_lane] += 1
            self._tasks.start_soon(self._render, item, variables, options, sources)

    def _wait(self, tenant_lane: TenantLane) -> float:
        """Return the seconds until the worker has rendered what this tenant has waiting."""
        now = self._clock.monotonic()
        each = self._call_seconds * len(self._waiting)
        queued_until = now + each * WAITING_MAX
        at = max(self._free_at.pop(tenant_lane, 0.0), queued_until) + each
        self._free_at[tenant_lane] = at
        while self._free_at and next(iter(self._free_at.values())) < now:
            self._free_at.popitem(last=False)
        return min(at - now, BACK_SECONDS_MAX)

    async def _render(self, item: Claimed, variables: str, options: Mapping[str, Any], sources: Sources) -> None:
        tenant_lane = item.tenant_id, item.lane
        given = self._bounds(), item.template, sources, variables
        with anyio.CancelScope() as scope:
            self._under_way.add(scope)
            if self._tasks is None:
                # Stopped before it began.
                scope.cancel()
            try:
                self._settle(item, options, await self._offload.call(item.tenant_id, render, *given))
            except CallLost as fault:
                log.warning("render.lost", delivery_id=item.id, error=str(fault))
                self._inbox.put(item, self._after_loss(item))
            finally:
                self._under_way.discard(scope)
                self._waiting[tenant_lane] -= 1
                if not self._waiting[tenant_lane]:
                    del self._waiting[tenant_lane]
        if scope.cancelled_caught:
            self._inbox.put(item, Back(0.0, "draining"))

    def _settle(self, item: Claimed, options: Mapping[str, Any], rendering: Rendering) -> None:
        self._call_seconds += NEWEST_SHARE * (rendering.cpu_seconds - self._call_seconds)
        if rendering.cpu_seconds < QUICK_SECONDS:
            self._quick(item.template)
        if rendering.parts is not None:
            self._send([Rendered(item, rendering.parts, options)])
        else:
            self._inbox.put(item, Failed(str(rendering.fault)))

    def _after_loss(self, item: Claimed) -> Back | Failed:
        lost = self._lost.pop(item.id, 0) + 1
        if lost >= LOST_MAX:
            return Failed("template: cannot be rendered: takes too long")
        self._lost[item.id] = lost
        if len(self._lost) > LOST_KEPT_MAX:
            self._lost.popitem(last=False)
        return Back(LOST_WAIT_SECONDS, "its rendering was lost")

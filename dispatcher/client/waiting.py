"""Waiting for the end of a run: polling it, and telling each change."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from inspect import isawaitable

from dispatcher.client.answers import Run
from dispatcher.client.errors import ClientError, WaitTimedOut

OnProgress = Callable[[Run], Awaitable[object] | object]

# The time of a poll that is begun at the very end.
LAST_POLL_SECONDS = 5.0


async def wait(
    run_id: int,
    read: Callable[[int], Awaitable[Run]],
    on_progress: OnProgress | None,
    *,
    seconds: float,
    poll: float,
    patient: bool,
) -> Run:
    """Return the run when it has ended. `patient`: a poll whose failure may pass is skipped."""
    end = time.monotonic() + seconds
    seen: Run | None = None
    trouble: ClientError | None = None
    while True:
        try:
            async with asyncio.timeout(max(end - time.monotonic(), LAST_POLL_SECONDS)):
                run = await read(run_id)
        except ClientError as fault:
            if not (patient and fault.passing):
                raise
            trouble = fault
        except TimeoutError:
            raise _late(run_id, seen, trouble, seconds) from None
        else:
            if run != seen:
                seen = run
                if on_progress is not None and isawaitable(waiting := on_progress(run)):
                    await waiting
            if run.ended:
                return run
        left = end - time.monotonic()
        if left <= 0:
            raise _late(run_id, seen, trouble, seconds)
        await asyncio.sleep(min(poll, left))


def _late(run_id: int, seen: Run | None, trouble: ClientError | None, seconds: float) -> WaitTimedOut:
    if seen is None:
        words = f"run {run_id} could not be looked at within {seconds:g} s"
        return WaitTimedOut(words if trouble is None else f"{words}: {trouble}", run_id=run_id)
    return WaitTimedOut(
        f"run {run_id} of {seen.workflow} is {seen.status} after {seconds:g} s", run_id=run_id, run=seen
    )

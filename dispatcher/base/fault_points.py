"""Fault points: named places at which a test makes the process die, stop or fail. Unarmed they cost a comparison.

`FAULT=flush.written:3:kill9` acts when the third flush has been written. Several are separated by commas. Actions:
`kill9` (die at once), `exit` (leave at once, with a code), `raise` (as a bug would), `stop` (SIGSTOP: the process
stands still until SIGCONT), `stall=SECONDS` (the loop stands still).
"""

import os
import signal
import time
from collections.abc import Mapping

from msgspec import Struct

EXIT_CODE = 70

# Every point there is, in the order in which a delivery meets them; and those of a move, in its order.
POINTS = (
    "claim.asked",
    "claim.taken",
    "render.done",
    "mark.asked",
    "mark.written",
    "call.begun",
    "call.ended",
    "result.put",
    "flush.asked",
    "flush.written",
    "walk.noted",
    "walk.before_commit",
    "walk.committed",
    "expand.locked",
    "expand.before_commit",
    "expand.committed",
    "tick.before_commit",
    "tick.committed",
    "announce.before_commit",
    "announce.committed",
    "quiet_hours.decided",
    "quiet_hours.moved",
    "recovery.fenced",
    "recovery.done",
    "drain.begun",
    "farewell.begun",
    "farewell.flushed",
    "farewell.left",
    "move.page",
    "move.stopped",
    "move.drained",
    "move.verified",
    "move.closed",
    "move.opened",
    "move.cleaned",
)
ACTIONS = ("kill9", "exit", "raise", "stop", "stall")


class Armed(Struct):
    """The action of an armed point, and how many passages are left until it."""

    countdown: int
    action: str
    seconds: float = 0.0


class FaultPointError(RuntimeError):
    """A fault point was armed with `raise`."""


def parse(text: str) -> dict[str, Armed]:
    """Return the armed points of a `FAULT`."""
    armed: dict[str, Armed] = {}
    for one in filter(None, text.split(",")):
        point, count, action = (*one.split(":"), "", "")[:3]
        action, _, seconds = action.partition("=")
        if point not in POINTS or action not in ACTIONS or not count.isdigit() or int(count) < 1:
            raise ValueError(
                f"FAULT={one!r} is not POINT:COUNT:ACTION with a point of {POINTS}, an action of {ACTIONS}"
            )
        armed[point] = Armed(int(count), action, float(seconds or 1))
    return armed


ARMED: dict[str, Armed] = {}


def arm(environ: Mapping[str, str]) -> None:
    """Arm the points in the environment's `FAULT`; in production there is none."""
    ARMED.clear()
    ARMED.update(parse(environ.get("FAULT", "")))


def passing(point: str) -> None:
    """Pass a point. Callers guard it with `if ARMED:`, so that unarmed nothing is called."""
    armed = ARMED.get(point)
    if armed is None:
        return
    armed.countdown -= 1
    if armed.countdown:
        return
    del ARMED[point]
    match armed.action:
        case "kill9":
            os.kill(os.getpid(), signal.SIGKILL)
        case "exit":
            os._exit(EXIT_CODE)
        case "stop":
            os.kill(os.getpid(), signal.SIGSTOP)
        case "stall":
            time.sleep(armed.seconds)
        case _:
            raise FaultPointError(point)

"""The jobs of a peer: what the ledger would answer, drawn in the worker, and how late each attempt is."""

import time
from pathlib import Path

import msgspec
from msgspec import Struct

from bench.retrying.schedule import Schedule, due_seconds, faults

# One of the peers does a few hundred jobs a second.
DUE_PER_SECOND = 70


class Attempts(Struct):
    """What a peer's worker did: how late each attempt was, how many were too early, and the messages sent twice."""

    late_seconds: list[float]
    early: int = 0
    twice: int = 0
    ended: int = 0


class Jobs:
    """Jobs by number. A worker calls `attempt` in each, and retries after the answer."""

    def __init__(self, began: float, seed: int) -> None:
        self._began = began
        self._faults = faults(seed)
        self._schedule = Schedule()
        self._due: dict[int, float] = {}
        self._used: dict[int, int] = {}
        self._turns: dict[int, int] = {}
        self._accepted: set[int] = set()
        self.done = Attempts([])

    def attempt(self, number: int) -> float | None:
        """Make the next attempt; the seconds until the one after it, or None where there is none."""
        now = time.time()
        late = now - self._due.get(number, self._began + due_seconds(number, DUE_PER_SECOND))
        self.done.late_seconds.append(max(0.0, late))
        self.done.early += late < -0.001  # noqa: PLR2004 - two processes read one clock
        wait = self._wait(number)
        if wait is None:
            self.done.ended += 1
        else:
            self._due[number] = now + wait
        return wait

    def _wait(self, number: int) -> float | None:
        used, turn = self._used.get(number, 0) + 1, self._turns.pop(number, 0)
        fault, _ = self._faults.draw(f"retry-{number}", used, turn)
        if fault == "throttle":
            self._turns[number] = turn + 1
            return self._schedule.throttle_seconds
        self._used[number] = used
        if fault in ("accept", "drop"):
            self.done.twice += number in self._accepted
            self._accepted.add(number)
        # An answer that was lost is an exception like any other: the job is done again.
        ended = fault in ("accept", "refuse") or used >= self._schedule.attempts_max
        return None if ended else self._schedule.wait(used)[0]

    def write(self, path: Path) -> None:
        """Leave what was done for whoever started the worker."""
        path.write_bytes(msgspec.json.encode(self.done))


def read(path: Path) -> Attempts:
    """Return what a worker has left."""
    return msgspec.json.decode(path.read_bytes(), type=Attempts)

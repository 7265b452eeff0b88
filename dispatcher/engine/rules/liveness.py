"""Liveness of instances: judged by a counter that does not move, on the observer's own clock, and by nothing else."""

from collections.abc import Mapping


class Watch:
    """Counts the silence of each epoch while this process watches."""

    def __init__(self, gap_seconds_max: float) -> None:
        # Time in which we did not look (stopped, suspended, Postgres away) says nothing about others: of a longer gap
        # no more than this counts.
        self._gap_seconds_max = gap_seconds_max
        self._looked_at: float | None = None
        self._seen: dict[int, int] = {}
        self._silence: dict[int, float] = {}

    def stale(self, now: float, beats: Mapping[int, tuple[int, float]]) -> list[int]:
        """The epochs that have been silent for their lease. `beats` has counter and lease by epoch."""
        gap = 0.0 if self._looked_at is None else min(now - self._looked_at, self._gap_seconds_max)
        self._looked_at = now
        for epoch, (beat, _) in beats.items():
            moved = self._seen.get(epoch) != beat
            self._silence[epoch] = 0.0 if moved else self._silence[epoch] + gap
            self._seen[epoch] = beat
        for epoch in self._seen.keys() - beats.keys():
            del self._seen[epoch], self._silence[epoch]
        return [epoch for epoch, (_, lease) in beats.items() if self._silence[epoch] >= lease]

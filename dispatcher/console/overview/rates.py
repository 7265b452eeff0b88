"""Rates: successes a second, from the growth of minutes between two looks at them."""

from collections import deque
from collections.abc import Iterable

from dispatcher.console.overview.figures import Rates
from dispatcher.features.overview.models import Minute

# A rate is the mean of so many seconds.
WINDOW_SECONDS = 5.0


class RateMeter:
    """Looks at minutes again and again."""

    def __init__(self) -> None:
        self._seen: dict[tuple[int, str, str], int] = {}
        # When it looked, and how much each lane of each channel had grown since the look before.
        self._grown: deque[tuple[float, dict[tuple[str, str], int]]] = deque()

    def look(self, now: float, minutes: Iterable[Minute]) -> Rates | None:
        """Take another look; returns the rates, or None before there is a second look."""
        found = {(one.at, one.channel, one.lane): one.deliveries for one in minutes if one.outcome == "succeeded"}
        grown: dict[tuple[str, str], int] = {}
        for (at, channel, lane), number in found.items():
            more = number - self._seen.get((at, channel, lane), 0)
            if more > 0:
                grown[channel, lane] = grown.get((channel, lane), 0) + more
        first = not self._grown
        self._seen = found
        self._grown.append((now, {} if first else grown))
        while len(self._grown) > 1 and now - self._grown[1][0] >= WINDOW_SECONDS:
            self._grown.popleft()
        seconds = now - self._grown[0][0]
        if seconds <= 0:
            return None
        totals: dict[tuple[str, str], int] = {}
        for _, each in list(self._grown)[1:]:
            for key, number in each.items():
                totals[key] = totals.get(key, 0) + number
        return {key: number / seconds for key, number in totals.items()}

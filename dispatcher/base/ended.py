"""What a process has seen ending since it was last asked, by workspace, channel, lane and outcome."""

from collections import Counter
from collections.abc import Iterable

# Tenant, workspace, channel, lane, outcome. Without a workspace: the sum of all.
Group = tuple[str, str, str, int, str]
# Others count in the sum alone, so that ten thousand workspaces are not a thousand rows a second.
WORKSPACES_MAX = 200


class Ended:
    """Counts endings. The recorder takes them once a second."""

    def __init__(self, workspaces_max: int = WORKSPACES_MAX) -> None:
        self._workspaces_max = workspaces_max
        self._workspaces: set[tuple[str, str]] = set()
        self._counts: Counter[Group] = Counter()

    def add(self, counts: Iterable[tuple[Group, int]]) -> None:
        """Count these, and their sum over all workspaces."""
        for group, count in counts:
            place = group[:2]
            if place in self._workspaces or len(self._workspaces) < self._workspaces_max:
                self._workspaces.add(place)
                self._counts[group] += count
            self._counts["", "", *group[2:]] += count

    def take(self) -> Counter[Group]:
        """Return what was counted since the last time."""
        taken, self._counts = self._counts, Counter()
        return taken

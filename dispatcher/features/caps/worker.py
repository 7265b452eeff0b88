"""The caps as the engine asks for them, and the chore that sweeps counters."""

from collections.abc import Sequence

from dispatcher.base.metrics import Metrics
from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Claimed
from dispatcher.engine.store.marks import LimitedMark
from dispatcher.features.caps import rules, store

# Behind no counter: where a walk over all of them begins.
_START = -(2**63), -(2**63)


class CapReader:
    """Holds the caps of all workspaces, and says how a batch is marked under them."""

    def __init__(self, database: Database, metrics: Metrics) -> None:
        self._database = database
        self._metrics = metrics
        self._caps: rules.Caps = {}

    async def run_once(self) -> None:
        """Read the caps once."""
        self._caps = await store.current(self._database)

    def limited(self, batch: Sequence[Claimed]) -> LimitedMark | None:
        """Return the mark of a batch in which some are capped; None where no cap is about any of them."""
        asked = rules.requests(self._caps, batch) if self._caps else None
        if asked is None:
            return None
        return LimitedMark(store.MARK, store.arguments(asked), self._metrics.capped.labels(batch[0].channel).inc)


class Sweeper:
    """Deletes counters that count nothing any more: a page in each round of the janitor, over and over."""

    def __init__(self) -> None:
        self._behind = _START

    async def __call__(self, database: Database, page: int) -> None:
        """Sweep the next page."""
        self._behind = await store.sweep(database, self._behind, page) or _START

"""The mark: the durable note that a provider is about to be called, and the licence that it gives."""

from collections.abc import Callable, Sequence

from channels.contract import Licence
from dispatcher.domain.life import Claimed
from dispatcher.errors import Fenced
from dispatcher.store.database import Database
from dispatcher.store.queries import statements

_SQL = statements("marks")
_ALIVE = _SQL["alive"]
_MARK = _SQL["mark"]


async def mark(
    database: Database, epoch: int, batch: Sequence[Claimed], clock: Callable[[], float], licence_seconds: float
) -> tuple[Licence, dict[int, int]]:
    """Mark what is still ours, and say which attempt each is. Run once: an error means that the outcome is unknown."""
    # The end of the licence counts from before the mark, since a fence may come as soon as the mark is committed.
    deadline = clock() + licence_seconds
    rows = await database.fetch(_MARK, epoch, [item.id for item in batch], [item.token for item in batch])
    attempts: dict[int, int] = dict(rows)
    if not attempts and not await database.value(_ALIVE, epoch):
        raise Fenced
    return _mint(deadline, clock), attempts


def _mint(deadline: float, clock: Callable[[], float]) -> Licence:
    """The one place where a licence comes into being. Its constructor takes what no caller has."""
    licence = object.__new__(Licence)
    licence.deadline = deadline
    licence._clock = clock
    return licence

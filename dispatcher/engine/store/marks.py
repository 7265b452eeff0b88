"""The mark: the durable note that a provider is about to be called, and the licence that it gives."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from channels.contract import Licence
from dispatcher.base.errors import Fenced, PausesChanged
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.engine.rules.life import Claimed

_SQL = statements(__name__)
_ALIVE = _SQL["alive"]
_MARK = _SQL["mark"]
_ASKED = _MARK.index("SELECT id, token, $4"), _MARK.index(") AS asked")
_MARK_EACH = "".join((_MARK[: _ASKED[0]], _SQL["asked_each"], _MARK[_ASKED[1] :]))


class LimitedMark(Struct, frozen=True):
    """The mark of a batch in which some may be over a limit: another statement, whose arguments follow those of
    the mark. It marks as that does, and ends in the same transaction what is over its limit: those have attempt 0,
    and `count` is told how many they are."""

    statement: str
    arguments: Sequence[object]
    count: Callable[[int], None]


async def mark(
    database: Database,
    epoch: int,
    batch: Sequence[Claimed],
    clock: Callable[[], float],
    licence_seconds: float,
    provider: str | Mapping[int, str],
    same_pauses: Callable[[], bool] = lambda: True,
    *,
    limited: LimitedMark | None = None,
) -> tuple[Licence, dict[int, int]]:
    """Mark what is still ours for a provider, or for that of each by its id, and say which attempt each is.

    Run once: an error means that the outcome is unknown. A saturated pool makes a mark wait for its connection. Raises
    PausesChanged, and marks nothing, where the pauses are not the same after that.
    """
    batch = sorted(batch, key=lambda item: item.id)  # the lock order
    # The end of the licence counts from before the mark, since a fence may come as soon as the mark is committed.
    deadline = clock() + licence_seconds
    asked = epoch, [item.id for item in batch], [item.token for item in batch]
    rows = await database.fetch_while(same_pauses, *_statement(asked, provider, batch, limited))
    if rows is None:
        raise PausesChanged
    attempts: dict[int, int] = dict(rows)
    if len(attempts) < len(batch):
        left = [item for item in batch if item.id not in attempts]
        await database.persist("settle unmarked", lambda: _settle(database, left, provider))
    if not attempts and not await database.value(_ALIVE, epoch):
        raise Fenced
    if limited is not None:
        marked = {one: attempt for one, attempt in attempts.items() if attempt}
        limited.count(len(attempts) - len(marked))
        attempts = marked
    return _mint(deadline, clock), attempts


def _statement(
    asked: tuple[object, ...],
    provider: str | Mapping[int, str],
    batch: Sequence[Claimed],
    limited: LimitedMark | None,
) -> tuple[Any, ...]:
    """Return the statement of a mark, and its arguments."""
    if limited is not None:
        return limited.statement, *asked, _providers(provider, batch), *limited.arguments
    if isinstance(provider, str):
        return _MARK, *asked, provider
    return _MARK_EACH, *asked, _providers(provider, batch)


async def _settle(database: Database, left: Sequence[Claimed], provider: str | Mapping[int, str]) -> None:
    """The items that the mark left out: claimed by another instance, or ended here (expired, or held for their key)."""
    asked = [item.id for item in left], [item.token for item in left], _providers(provider, left)
    await database.fetch(_SQL["settle_unmarked"], *asked)


def _providers(provider: str | Mapping[int, str], batch: Sequence[Claimed]) -> list[str]:
    """The provider of each, or one for all of them."""
    return [provider] if isinstance(provider, str) else [provider[item.id] for item in batch]


def _mint(deadline: float, clock: Callable[[], float]) -> Licence:
    """The one place where a licence comes into being. Its constructor takes what no caller has."""
    licence = object.__new__(Licence)
    licence.deadline = deadline
    licence._clock = clock
    return licence

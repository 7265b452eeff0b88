"""Settling: held deliveries in pages, and a sentence about what became of each."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from msgspec import structs

from dispatcher.cli.operating import second
from dispatcher.cli.session import Session
from dispatcher.cli.sweeping import LISTED_MAX, PAGE, Told, Words, act_on_named, cut, sweep
from dispatcher.doors.nouns import Held, HeldFilter, Settlement
from dispatcher.doors.stored.operating import StoredHeld
from dispatcher.store import settling as store
from dispatcher.store.database import Database
from dispatcher.store.held import SettleAs
from dispatcher.store.settling import Filter, Standing

_FIRST = (datetime(1970, 1, 1, tzinfo=UTC), 0)

WORDS = Words("delivery", "deliveries", "held", "settling", "settled", "settled", "none is held", "held")
AS_WORDS = {"sent": "settled as sent", "failed": "settled as failed", "requeue": "sent again"}
SETTLED_WORDS = {"sent": "is settled as sent", "failed": "is settled as failed", "requeue": "will be sent again"}


def sentence(delivery_id: int, answer: str, settle_as: SettleAs, now: Standing | None) -> Told:
    """What to say about one answer."""
    if answer == "settled":
        words = SETTLED_WORDS[settle_as]
    elif answer == "unknown" or now is None:
        words = "does not exist"
    elif answer == "early":
        words = _early(now)
    elif answer == "not held":
        words = f"is not held, it is {now.life}{_by_whom(now)}"
    else:
        words = f"is {answer} already{_by_whom(now)}"
    return Told(delivery_id, answer == "settled", answer, f"delivery {delivery_id} {words}")


def _early(now: Standing) -> str:
    """Its time may have come between the answer and the look."""
    until = f"before {second(now.settle_after)} (in {now.wait_seconds or 0:.0f} s)" if now.settle_after else "yet"
    return f"cannot be settled {until}: a call of its dead owner may still be going on"


def _by_whom(now: Standing) -> str:
    if now.actor is None or now.at is None:
        return ""
    did = "requeued it" if now.action == "requeue" else f"settled it as {now.action}"
    return f": {now.actor} {did} at {second(now.at)} ({now.reason})"


def settle_these(session: Session, held: Held, ids: Sequence[int], settlement: Settlement) -> bool:
    """Settle the named ones and say what became of each; whether all of them were."""
    return act_on_named(session.voice, ids, lambda page: _settle_page(session, held, page, settlement))


def settle_all(session: Session, database: Database, meant: Filter, settlement: Settlement, yes: bool) -> bool:
    """Settle every one that is held now, once somebody means it; whether all of them were."""
    count, asked_at = session.run(lambda: store.held_count(database, meant))
    words = structs.replace(WORDS, done_as=AS_WORDS[settlement.settle_as])
    pages, held = _pages(session, database, meant, asked_at), StoredHeld(database)
    return sweep(session.voice, words, count, yes, pages, lambda page: _settle_page(session, held, page, settlement))


def settle_listed(session: Session, held: Held, which: HeldFilter, settlement: Settlement, yes: bool) -> bool:
    """The same through a server: those that are listed now, and none that is held later."""
    ids = [row["id"] for row in session.run(lambda: held.listed(which, LISTED_MAX))]
    words = structs.replace(WORDS, done_as=AS_WORDS[settlement.settle_as])
    return sweep(
        session.voice, words, len(ids), yes, cut(ids), lambda page: _settle_page(session, held, page, settlement)
    )


def _pages(session: Session, database: Database, meant: Filter, asked_at: datetime) -> Iterator[list[int]]:
    """Those that were held when somebody meant it, each once, whether or not it can be settled."""
    behind = _FIRST
    while True:
        page = session.run(lambda at=behind: store.held_page(database, meant, asked_at, at, PAGE))  # type: ignore[misc]  # bound now
        if not page:
            return
        yield [delivery_id for delivery_id, _ in page]
        delivery_id, held_at = page[-1]
        behind = (held_at, delivery_id)


def _settle_page(session: Session, held: Held, ids: Sequence[int], settlement: Settlement) -> list[Told]:
    """Settle a page; about those that were not, look what they are now."""
    answers = session.run(lambda: held.settle(ids, settlement))
    left = [delivery_id for delivery_id, answer in answers.items() if answer != "settled"]
    now = session.run(lambda: held.standing(left)) if left else {}
    return [sentence(one, answers[one], settlement.settle_as, now.get(one)) for one in ids]

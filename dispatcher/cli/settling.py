"""Settling: held deliveries in pages, and a sentence about what became of each."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from msgspec import Struct

from dispatcher.cli.operating import confirm, deliveries_in_words, second
from dispatcher.cli.progress import progress_bar
from dispatcher.cli.session import Session
from dispatcher.cli.voice import Voice
from dispatcher.store import settling as store
from dispatcher.store.database import Database
from dispatcher.store.held import SettleAs
from dispatcher.store.settling import Filter, Standing

# One transaction: its rows stay locked for some 100 ms.
PAGE = 500
# Beyond these a person stops reading; JSON names them all.
REFUSED_SHOWN_MAX = 20
_FIRST = (datetime(1970, 1, 1, tzinfo=UTC), 0)

AS_WORDS = {"sent": "settled as sent", "failed": "settled as failed", "requeue": "sent again"}
SETTLED_WORDS = {"sent": "is settled as sent", "failed": "is settled as failed", "requeue": "will be sent again"}


class Settlement(Struct, frozen=True):
    """What somebody says became of deliveries."""

    settle_as: SettleAs
    actor: str
    reason: str
    message_id: str | None = None


class Settled(Struct, frozen=True):
    """What became of saying so about one: whether it was done, the schema's answer, and that in words."""

    id: int
    done: bool
    answer: str
    message: str


def sentence(delivery_id: int, answer: str, settle_as: SettleAs, now: Standing | None) -> Settled:
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
    return Settled(delivery_id, answer == "settled", answer, f"delivery {delivery_id} {words}")


def _early(now: Standing) -> str:
    """Its time may have come between the answer and the look."""
    until = f"before {second(now.settle_after)} (in {now.wait_seconds or 0:.0f} s)" if now.settle_after else "yet"
    return f"cannot be settled {until}: a call of its dead owner may still be going on"


def _by_whom(now: Standing) -> str:
    if now.actor is None or now.at is None:
        return ""
    did = "requeued it" if now.action == "requeue" else f"settled it as {now.action}"
    return f": {now.actor} {did} at {second(now.at)} ({now.reason})"


def settle_these(session: Session, database: Database, ids: Sequence[int], settlement: Settlement) -> bool:
    """Settle the named ones and say what became of each; whether all of them were."""
    all_done = True
    for at in range(0, len(ids), PAGE):
        for one in _settle_page(session, database, ids[at : at + PAGE], settlement):
            all_done = all_done and one.done
            _tell(session.voice, one)
    return all_done


def settle_all(session: Session, database: Database, meant: Filter, settlement: Settlement, yes: bool) -> bool:
    """Settle every one that is held now, once somebody means it; whether all of them were."""
    count, asked_at = session.run(lambda: store.held_count(database, meant))
    voice = session.voice
    if count:
        confirm(voice, yes, count, f"{deliveries_in_words(count)} would be {AS_WORDS[settlement.settle_as]}")
    settled = refused = 0
    try:
        with progress_bar(voice, "settling", count) as at:
            for page in _pages(session, database, meant, asked_at):
                for one in _settle_page(session, database, page, settlement):
                    settled, refused = settled + one.done, refused + (not one.done)
                    if not one.done:
                        _tell_refused(voice, one, refused)
                at(settled + refused)
    except BaseException:
        words = f"stopped: {deliveries_in_words(settled)} settled, which stays so; the others are held"
        voice.note(words, {"stopped": True, "settled": settled, "not_settled": refused})
        raise
    if voice.as_json:
        voice.record({"held": count, "settled": settled, "not_settled": refused})
    else:
        left = f", {refused:,} not" if refused else ""
        voice.text(
            f"{deliveries_in_words(settled)} {AS_WORDS[settlement.settle_as]}{left}" if count else "none is held"
        )
    return not refused


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


def _settle_page(session: Session, database: Database, ids: Sequence[int], settlement: Settlement) -> list[Settled]:
    """Settle a page; about those that were not, look what they are now."""
    said = settlement.settle_as, settlement.actor, settlement.reason, settlement.message_id
    answers = dict(session.run(lambda: store.settle(database, ids, *said)))
    left = [delivery_id for delivery_id, answer in answers.items() if answer != "settled"]
    now = session.run(lambda: store.standing(database, left)) if left else {}
    return [sentence(one, answers[one], settlement.settle_as, now.get(one)) for one in ids]


def _tell(voice: Voice, one: Settled) -> None:
    if voice.as_json:
        voice.record(one)
    else:
        voice.text(one.message)


def _tell_refused(voice: Voice, one: Settled, number: int) -> None:
    if not voice.as_json and number > REFUSED_SHOWN_MAX:
        if number == REFUSED_SHOWN_MAX + 1:
            voice.say("others that cannot be settled are only counted; --json names them all")
        return
    voice.note(one.message, {"id": one.id, "done": one.done, "answer": one.answer, "message": one.message})

"""A replica as the model drives it: an epoch with what it remembers, whether or not the others think that it lives."""

from collections.abc import Callable, Sequence

from msgspec import Struct, field

from channels.contract import Licence
from dispatcher.engine.rules.life import Claimed, Held, Outcome, Result
from dispatcher.engine.streams import Tokens


class Call(Struct, frozen=True):
    """A marked delivery, and the licence to call its provider; `since` when the call was begun."""

    item: Claimed
    provider: str
    licence: Licence
    since: int | None = None

    def __repr__(self) -> str:
        return f"call of {self.item.id}"


class Replica(Struct):
    """One epoch: what it claimed, what it marked, what it is calling, and results that it has not written yet."""

    epoch: int
    tokens: Tokens
    claimed: list[Claimed] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    inbox: list[Result] = field(default_factory=list)
    # A flush whose answer was lost: it is run again before anything else is written.
    unanswered: tuple[list[Result], list[int]] | None = None
    # Statements whose session was cut off and that Postgres may still come to.
    adrift: list[Callable[[], None]] = field(default_factory=list)
    fenced: bool = False

    def __repr__(self) -> str:
        return f"replica {self.epoch}"

    def take(self, token: int, items: Sequence[Claimed]) -> None:
        """A claim was answered."""
        self.tokens.claimed(token, len(items))
        self.claimed.extend(items)

    def put(self, item: Claimed, outcome: Outcome) -> None:
        """A result is known."""
        self.inbox.append((item, outcome))

    def batch(self, count: int) -> tuple[list[Result], list[int]]:
        """Results to write, and the claims that they complete: a claim in which something is held stays."""
        results = sorted(self.inbox[:count], key=lambda result: result[0].id)
        del self.inbox[:count]
        complete = self.tokens.settle(results)
        self.tokens.close(complete)
        held = {item.token for item, outcome in results if isinstance(outcome, Held)}
        return results, [token for token in complete if token not in held]

"""The choice of a provider: which of several each delivery goes to, and which must wait.

A delivery goes to the provider that its id and the weights choose (without weights to the first), and on to the others
in their order while that one is paused, broken, or, where the channel lets it, out of tokens. One that its last
provider has passed on goes to those behind it. One with an unknown attempt goes to the provider of that attempt or
nowhere.
"""

from collections.abc import Callable, Mapping, Sequence

from msgspec import Struct

from dispatcher.engine.providers.terms import ProviderTerms, Terms
from dispatcher.engine.rules.life import Claimed
from dispatcher.engine.streams import Rendered

# A delivery whose provider is paused or broken comes back after this, or when its breaker lets one through.
WAIT_SECONDS = 5.0
# 2^64 divided by the golden ratio: neighbouring ids fall far apart, and each part of a thousand gets its share.
_SPREAD = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1

Order = Sequence[ProviderTerms]


class Choice(Struct, frozen=True):
    """The deliveries of each provider, whose tokens are taken, and those that must wait, each with its seconds."""

    groups: Sequence[tuple[ProviderTerms, Sequence[Rendered]]]
    late: Sequence[tuple[Rendered, float]]


class _Open(Struct):
    """What a provider can take now: `left` of its tokens. It is `shut` while it is paused or broken."""

    terms: ProviderTerms
    left: int
    shut: bool
    taken: list[Rendered]
    late: int = 0

    @classmethod
    def of(cls, terms: ProviderTerms, now: float, wanted: int, share: float, *, stopped: bool) -> "_Open":
        """Take as many tokens as may be used."""
        terms.rates.share(now, share)
        if stopped or terms.breaker.wait(now) > 0:
            return cls(terms, 0, True, [])
        tokens = terms.rates.take(now, wanted if terms.breaker.is_closed else 1)
        return cls(terms, tokens, False, [])

    def take(self, one: Rendered, now: float) -> None:
        self.taken.append(one)
        self.left -= 1
        if not self.terms.breaker.is_closed:
            # This one shows whether it is back.
            self.terms.breaker.probe(now)
            self.shut = True

    def wait(self, now: float) -> float:
        """For how long the next delivery waits: it is behind those that wait already."""
        if self.shut:
            return self.terms.breaker.wait(now) or WAIT_SECONDS
        rate = self.terms.rates.provider.rate
        self.late += 1
        return self.terms.rates.wait(now) + ((self.late - 1) / rate if rate > 0 else 0.0)


def choose(
    terms: Terms, batch: Sequence[Rendered], now: float, share: float, stopped: Callable[[ProviderTerms], bool]
) -> Choice:
    """Share deliveries out to the channel's providers, and take their tokens."""
    orders = _Orders(terms.several)
    found = {one.provider: _Open.of(one, now, len(batch), share, stopped=stopped(one)) for one in terms.several}
    late: list[tuple[Rendered, float]] = []
    for one in batch:
        chosen = _first(one.item, orders, found, now, overflow=terms.settings.overflow)
        if chosen.left:
            chosen.take(one, now)
        else:
            late.append((one, chosen.wait(now)))
    for provider in found.values():
        provider.terms.rates.give_back(provider.left)
    return Choice([(provider.terms, provider.taken) for provider in found.values() if provider.taken], late)


def _first(item: Claimed, orders: "_Orders", found: Mapping[str, _Open], now: float, *, overflow: bool) -> _Open:
    """Return the provider that a delivery goes to, or waits for."""
    if item.bound_to is not None:
        # One that is gone is nobody's: the mark for any other leaves it out, and it is held.
        return found.get(item.bound_to) or next(iter(found.values()))
    order = orders.of(item.id)
    if item.passed_by is not None and (rest := behind(order, item.passed_by)):
        able = [one for one in rest if found[one.provider].left]
        order = able or order
    waits: _Open | None = None
    for one in order:
        provider = found[one.provider]
        if provider.left:
            return provider
        if not provider.shut:
            waits = waits or provider
            if not overflow:
                break
    return waits or min((found[one.provider] for one in order), key=lambda one: one.terms.breaker.wait(now))


def behind(order: Order, name: str) -> Order:
    """Return the providers behind one in an order; all of them where it is not there."""
    names = [one.provider for one in order]
    return order[names.index(name) + 1 :] if name in names else order


def next_is_ready(terms: Terms, item: Claimed, name: str, stopped: Callable[[ProviderTerms], bool]) -> bool:
    """Whether a delivery that provider `name` did not take may go on to another one."""
    if item.bound_to is not None:
        return False
    rest = behind(_Orders(terms.several).of(item.id), name)
    return any(one.provider != name and one.breaker.is_closed and not stopped(one) for one in rest)


def claimable(terms: Terms, now: float, share: float, stopped: Callable[[ProviderTerms], bool]) -> float:
    """Return the number of deliveries that it makes sense to claim now: what the providers that are ready can take."""
    usable = terms.rates.claimable(now)
    if not terms.several:
        return usable
    going = [one for one in terms.several if not stopped(one) and one.breaker.wait(now) <= 0]
    for one in going:
        one.rates.share(now, share)
    ready = [one for one in going if one.breaker.is_closed]
    if not ready:
        # Each of them is tried with one delivery.
        return min(usable, sum(min(one.rates.claimable(now), 1.0) for one in going))
    if terms.settings.overflow:
        return min(usable, sum(one.rates.claimable(now) for one in ready))
    shares = _shares(terms.several, ready)
    return min(usable, *(one.rates.claimable(now) / part for one, part in zip(ready, shares, strict=True) if part > 0))


def until_usable(terms: Terms, now: float) -> float:
    """Return the seconds until one of the providers can take a delivery."""
    waits = [max(one.rates.wait(now), one.breaker.wait(now)) for one in terms.several]
    return max(terms.rates.wait(now), min(waits, default=0.0))


def _shares(several: Order, ready: Order) -> list[float]:
    """The part of the deliveries that goes to each that is ready: what others cannot take goes to the first."""
    total = sum(one.weight for one in several)
    parts = [one.weight / total if total else 0.0 for one in ready]
    parts[0] += 1.0 - sum(parts)
    return parts


class _Orders:
    """The order of providers for each delivery: the one that the weights choose, then the others."""

    def __init__(self, several: Order) -> None:
        self._first = several
        total = sum(one.weight for one in several)
        self._bounds: list[tuple[float, Order]] = []
        bound = 0.0
        for chosen in several if total else ():
            bound += chosen.weight / total
            self._bounds.append((bound, (chosen, *(one for one in several if one is not chosen))))

    def of(self, delivery_id: int) -> Order:
        if not self._bounds:
            return self._first
        point = ((delivery_id * _SPREAD) & _MASK) / (_MASK + 1)
        return next((order for bound, order in self._bounds if point < bound), self._first)

"""The choice of a provider: which of several each delivery goes to, and which must wait.

A delivery goes to the provider that its id and the weights choose (without weights to the first), and on to the others
in their order while that one is paused, broken, or, where the channel lets it, out of tokens. One that its last
provider has passed on goes to those behind it. One with an unknown attempt goes to the provider of that attempt or
nowhere.
"""

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias, TypeVar

from msgspec import Struct

from channels.contract import Throttled, Verdict
from dispatcher.engine.providers.terms import ProviderTerms, Terms
from dispatcher.engine.rules.life import Claimed
from dispatcher.engine.streams import Rendered

# A delivery whose provider is paused or broken comes back after this, or when its breaker lets one through.
WAIT_SECONDS = 5.0
# 2^64 divided by the golden ratio: neighbouring ids fall far apart, and each part of a thousand gets its share.
_SPREAD = 0x9E3779B97F4A7C15
_MASK = (1 << 64) - 1

T = TypeVar("T")
Orders: TypeAlias = Sequence[tuple[float, Sequence[T]]]


class Choice(Struct, frozen=True):
    """The deliveries of each provider, whose tokens are taken, and those that must wait, each with its seconds."""

    groups: Sequence[tuple[ProviderTerms, Sequence[Rendered]]]
    late: Sequence[tuple[Rendered, float]]


class _Open(Struct, eq=False):
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

    def take_all(self, some: Sequence[Rendered]) -> bool:
        """Take all of these, or none."""
        if self.left < len(some) or not self.terms.breaker.is_closed:
            return False
        self.taken += some
        self.left -= len(some)
        return True

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
    found = [_Open.of(one, now, len(batch), share, stopped=stopped(one)) for one in terms.several]
    orders = _orders(found, terms.several)
    ordinary = [one for one in batch if one.item.bound_to is None and one.item.passed_by is None]
    late: list[tuple[Rendered, float]] = []
    for order, some in _parts(ordinary, orders):
        if not order[0].take_all(some):
            for one in some:
                _place(one, _first(order, now, overflow=terms.settings.overflow), late, now)
    if len(ordinary) < len(batch):
        names = {one.terms.provider: one for one in found}
        for one in batch:
            if one.item.bound_to is not None or one.item.passed_by is not None:
                _place(one, _named(one.item, orders, names, now, overflow=terms.settings.overflow), late, now)
    for provider in found:
        provider.terms.rates.give_back(provider.left)
    return Choice([(provider.terms, provider.taken) for provider in found if provider.taken], late)


def _place(one: Rendered, provider: _Open, late: list[tuple[Rendered, float]], now: float) -> None:
    if provider.left:
        provider.take(one, now)
    else:
        late.append((one, provider.wait(now)))


def _parts(batch: Sequence[Rendered], orders: "Orders[_Open]") -> Sequence[tuple[Sequence[_Open], Sequence[Rendered]]]:
    """Return the deliveries of each order of providers."""
    if len(orders) == 1:
        return [(orders[0][1], batch)] if batch else []
    parts: list[list[Rendered]] = [[] for _ in orders]
    bounds = _bounds(orders)
    for one in batch:
        parts[bisect_right(bounds, _point(one.item.id))].append(one)
    return [(order, some) for (_, order), some in zip(orders, parts, strict=True) if some]


def _first(order: Sequence[_Open], now: float, *, overflow: bool) -> _Open:
    """Return the first provider that can take a delivery; else the one that it waits for."""
    waits: _Open | None = None
    for provider in order:
        if provider.left:
            return provider
        if not provider.shut:
            waits = waits or provider
            if not overflow:
                break
    return waits or min(order, key=lambda one: one.terms.breaker.wait(now))


def _named(item: Claimed, orders: "Orders[_Open]", names: Mapping[str, _Open], now: float, *, overflow: bool) -> _Open:
    """Return the provider of a delivery that is bound to one, or was passed on by one."""
    if item.bound_to is not None:
        # One that is gone is nobody's: the mark for any other leaves it out, and it is held.
        return names.get(item.bound_to) or next(iter(names.values()))
    order = _order_of(item.id, orders)
    rest = _behind(order, names.get(item.passed_by or ""))
    return _first([one for one in rest if one.left] or order, now, overflow=overflow)


def next_is_ready(
    terms: Terms, item: Claimed, last: ProviderTerms, verdict: Verdict, stopped: Callable[[ProviderTerms], bool]
) -> bool:
    """Whether a delivery that a provider did not take may go on to another one."""
    if item.bound_to is not None:
        return False
    if isinstance(verdict, Throttled) and (verdict.domain or not terms.settings.overflow):
        return False
    order = _order_of(item.id, _orders(terms.several, terms.several))
    same = next((one for one in order if one.provider == last.provider), None)
    return any(one is not same and one.breaker.is_closed and not stopped(one) for one in _behind(order, same))


def _behind(order: Sequence[T], last: T | None) -> Sequence[T]:
    """Return those behind one in an order; all of them where it is not there."""
    return order if last is None else order[order.index(last) + 1 :]


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


def _shares(several: Sequence[ProviderTerms], ready: Sequence[ProviderTerms]) -> list[float]:
    """The part of the deliveries that goes to each that is ready: what others cannot take goes to the first."""
    total = sum(one.weight for one in several)
    parts = [one.weight / total if total else 0.0 for one in ready]
    parts[0] += 1.0 - sum(parts)
    return parts


def _orders(each: Sequence[T], several: Sequence[ProviderTerms]) -> "Orders[T]":
    """The orders of providers, or of what stands for each, with the point up to which deliveries have them: first the
    one that the weights choose, then the others."""
    total = sum(one.weight for one in several)
    if not total:
        return [(1.0, each)]
    found: list[tuple[float, Sequence[T]]] = []
    bound = 0.0
    for chosen, terms in zip(each, several, strict=True):
        if terms.weight:
            bound += terms.weight / total
            found.append((bound, [chosen, *(one for one in each if one is not chosen)]))
    return found


def _point(delivery_id: int) -> float:
    return ((delivery_id * _SPREAD) & _MASK) / (_MASK + 1)


def _order_of(delivery_id: int, orders: "Orders[T]") -> Sequence[T]:
    return orders[bisect_right(_bounds(orders), _point(delivery_id))][1]


def _bounds(orders: "Orders[T]") -> list[float]:
    """Return the points that divide deliveries. All behind them are the last order's, whatever rounding says."""
    return [bound for bound, _ in orders[:-1]]

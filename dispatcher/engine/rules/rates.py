"""The rates of one channel: a bucket for its provider and, where configured, one per tenant and recipient domain."""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Protocol, TypeVar

import idna

from dispatcher.engine.rules.life import Claimed
from dispatcher.engine.rules.pauses import CampaignLimit
from dispatcher.engine.rules.token_bucket import Bucket

# Buckets of tenants or domains that were not used for longest are forgotten: they are full again by then.
BUCKETS_MAX = 10_000
# International domains whose ASCII form is cached: computing it takes some 50 µs.
DOMAINS_CACHED_MAX = 10_000
# How far ahead of its tokens a channel claims.
SOON_SECONDS = 1.0
# Without a share of a limit, look for one this often.
SHARELESS_WAIT_SECONDS = 0.1


class HasItem(Protocol):
    """A rendered delivery."""

    @property
    def item(self) -> Claimed: ...


S = TypeVar("S", bound=HasItem)


class Rates:
    """Decides how many deliveries may go now, and which wait for their tenant's or domain's limit."""

    def __init__(self, now: float, rate: float, burst: float, tenant_rate: float, domain_rate: float) -> None:
        self._rate = rate
        self._burst = burst
        self._share = 1.0
        self.provider = Bucket.full(rate, burst, now)
        self._tenant_rate = tenant_rate
        self._domain_rate = domain_rate
        self._tenants: OrderedDict[str, Bucket] = OrderedDict()
        self._domains: OrderedDict[str, Bucket] = OrderedDict()
        self._campaigns: OrderedDict[str, Bucket] = OrderedDict()
        # Domains that asked for a pause, and until when; and when the first of them is over.
        self._closed: OrderedDict[str, float] = OrderedDict()
        self._reopens_at = float("inf")

    def tune(self, now: float, rate: float, burst: float, tenant_rate: float, domain_rate: float) -> None:
        """Other limits from now on."""
        self._rate, self._burst = rate, burst
        self._tenant_rate, self._domain_rate = tenant_rate, domain_rate
        self._retune(now)

    def share(self, now: float, share: float) -> None:
        """This instance may use such a part of every limit from now on."""
        if share != self._share:
            self._share = share
            self._retune(now)

    def _retune(self, now: float) -> None:
        # A rate of 0 means no limit; without a share nothing is taken at all. Buckets keep their tokens: a full bucket
        # for each change would exceed the limit.
        if self._share > 0:
            self.provider.tune(now, self._rate * self._share, self._burst * self._share)
            for buckets, rate in ((self._tenants, self._tenant_rate), (self._domains, self._domain_rate)):
                if not rate:
                    buckets.clear()
                for bucket in buckets.values():
                    bucket.tune(now, rate * self._share, 0.0)

    def _shareless(self) -> bool:
        """Return whether there is a limit, and our share of it is 0."""
        return self._share <= 0 and bool(self._rate or self._tenant_rate or self._domain_rate)

    def take(self, now: float, wanted: int) -> int:
        """Tokens of the provider's bucket."""
        return 0 if self._shareless() else self.provider.take(now, wanted)

    def give_back(self, tokens: int) -> None:
        """Tokens of calls that were not begun."""
        self.provider.give_back(tokens)

    def wait(self, now: float) -> float:
        """Until the provider's bucket has a token."""
        return SHARELESS_WAIT_SECONDS if self._shareless() else self.provider.wait(now)

    def claimable(self, now: float) -> float:
        """Return the number of deliveries that it makes sense to claim now."""
        return 0.0 if self._shareless() else self.provider.usable_within(now, SOON_SECONDS)

    def close(self, now: float, seconds: float, domain: str | None = None) -> None:
        """Pause for a provider that asked for it: all deliveries, or those to one domain."""
        if domain is None:
            self.provider.close(now, seconds)
            return
        until = max(now + seconds, self._closed.get(domain, now))
        self._closed[domain] = until
        self._closed.move_to_end(domain)
        self._reopens_at = min(self._reopens_at, until)
        if len(self._closed) > BUCKETS_MAX:
            self._closed.popitem(last=False)

    def _reopen(self, now: float) -> None:
        """Forget pauses that are over."""
        if now >= self._reopens_at:
            self._closed = OrderedDict((name, until) for name, until in self._closed.items() if until > now)
            self._reopens_at = min(self._closed.values(), default=float("inf"))

    def admit(
        self, now: float, batch: Sequence[S], campaigns: Mapping[int, CampaignLimit]
    ) -> tuple[Sequence[S], list[tuple[S, float]]]:
        """Return those that may go, and those that must wait, each with its seconds."""
        self._reopen(now)
        if not self._tenant_rate and not self._domain_rate and not self._closed and not campaigns:
            return batch, []
        admitted: list[S] = []
        late: list[tuple[S, float]] = []
        queued: dict[int, int] = {}
        for one in batch:
            domain = domain_of(one.item.recipient) if self._domain_rate or self._closed else ""
            pause = self._closed.get(domain)
            if pause is not None:
                late.append((one, pause - now))
                continue
            if self._share <= 0 and one.item.campaign_run_id in campaigns:
                late.append((one, SHARELESS_WAIT_SECONDS))
                continue
            buckets = self._buckets(now, one.item, domain, campaigns)
            if all(bucket.wait(now) <= 0 for bucket in buckets):
                for bucket in buckets:
                    bucket.take(now, 1)
                admitted.append(one)
                continue
            # The n-th that must wait for a bucket waits for n of its tokens, so that they come back one by one.
            waits = [0.0]
            for bucket in buckets:
                place = queued[id(bucket)] = queued.get(id(bucket), 0) + 1
                waits.append(bucket.wait(now) + (place - 1) / bucket.rate)
            late.append((one, max(waits)))
        self.provider.give_back(len(late))
        return admitted, late

    def _buckets(self, now: float, item: Claimed, domain: str, campaigns: Mapping[int, CampaignLimit]) -> list[Bucket]:
        buckets: list[Bucket] = []
        if self._tenant_rate:
            buckets.append(_bucket(self._tenants, item.tenant_id, self._tenant_rate * self._share, now))
        if self._domain_rate and domain:
            buckets.append(_bucket(self._domains, domain, self._domain_rate * self._share, now))
        limit = None if item.campaign_run_id is None else campaigns.get(item.campaign_run_id)
        if limit is not None and limit.rate is not None:
            bucket = _bucket(self._campaigns, str(item.campaign_run_id), limit.rate * self._share, now)
            bucket.tune(now, limit.rate * self._share, 0.0)
            buckets.append(bucket)
        return buckets


def domain_of(recipient: str) -> str:
    """Return a recipient's domain in ASCII and lower case; empty for a text that is not an address."""
    _, at, domain = recipient.rpartition("@")
    if not at:
        return ""
    domain = domain.rstrip("> \t").lower()
    return domain if domain.isascii() else _ascii(domain)


@lru_cache(DOMAINS_CACHED_MAX)
def _ascii(domain: str) -> str:
    try:
        return idna.encode(domain, uts46=True).decode().lower()
    except idna.IDNAError:
        # It will be refused as an address; until then it stands for itself.
        return domain


def _bucket(buckets: OrderedDict[str, Bucket], name: str, rate: float, now: float) -> Bucket:
    if name not in buckets:
        buckets[name] = Bucket.full(rate, 0.0, now)
        if len(buckets) > BUCKETS_MAX:
            buckets.popitem(last=False)
    buckets.move_to_end(name)
    return buckets[name]

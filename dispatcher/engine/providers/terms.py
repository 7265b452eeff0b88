"""The terms of a channel: its provider, or several, and the settings that a reload may change while it sends."""

from collections import Counter
from collections.abc import Sequence

from msgspec import Struct, field

from channels.contract import Channel, Refused, RetryAfter, Throttled, Unknown, Verdict
from channels.shared.breaker import Breaker
from dispatcher.config.settings import Channel as Settings
from dispatcher.config.settings import Retry
from dispatcher.engine.rules.life import Resend
from dispatcher.engine.rules.rates import Rates

# One of several providers has this long to connect: then the others get its deliveries.
CONNECT_SECONDS_MAX = 5.0


class Terms(Struct, eq=False):
    """The settings of one provider's calls. `calls` counts the calls under way on them.

    Of a channel with several providers they are those of the channel as a whole, `several` has those of each provider
    in the channel's order, and `channel` is the first one's.
    """

    channel: Channel
    settings: Settings
    retry: Retry
    rates: Rates
    licence_seconds: float
    # The settings that replicas must have in common.
    fingerprint: str = ""
    calls: int = 0
    several: "tuple[ProviderTerms, ...]" = ()

    @property
    def provider(self) -> str:
        """The provider as deliveries name it."""
        return self.settings.provider

    @property
    def kind(self) -> str:
        """What the provider is."""
        return self.settings.provider

    @property
    def parts(self) -> "Sequence[Terms]":
        """The terms that have a channel each."""
        return self.several or (self,)

    @property
    def pausable(self) -> Sequence[Sequence[str]]:
        """The names by which a pause may mean each of its providers."""
        return self.settings.pausable

    @property
    def resend(self) -> Resend:
        """Whether an unknown attempt may be sent again, and until how long after the first mark under its key."""
        if self.several:
            promises = {one.provider: one.resend for one in self.several}
            keys = {name: promise.key_seconds for name, promise in promises.items() if promise.by == "key"}
            return Resend("at_least_once" if self.settings.at_least_once else None, provider_keys=keys)
        # A mark reaches its provider a licence and a call later at most: the key is known until then.
        usable = self.channel.idempotency_key_seconds - self.call_may_last_seconds
        keyed = self.channel.keyed_recipients
        if usable > 0:
            return Resend("key", None if usable == float("inf") else usable, keyed)
        return Resend("at_least_once" if self.settings.at_least_once else None, None, keyed)

    @property
    def connect_seconds_max(self) -> float:
        """How long it may take until a connection is ready."""
        return self.settings.call_seconds_max

    @property
    def call_may_last_seconds(self) -> float:
        """From the mark on: a call begins within its licence and ends within its time-out."""
        return self.licence_seconds + self.settings.call_seconds_max


class ProviderTerms(Terms, eq=False, kw_only=True):
    """The terms of one of several providers, by its name in the configuration, with a bucket and a breaker of its own.

    A name stands for an account: an unknown attempt is repeated at the provider of the same name and kind.
    """

    name: str
    breaker: Breaker
    # Since it was last measured: what it has taken, and its other verdicts.
    taken: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)

    @property
    def kind(self) -> str:
        """What it is."""
        return self.settings.providers[self.name].provider

    @property
    def weight(self) -> float:
        """Its part of the deliveries, beside the weights of the others."""
        return self.settings.providers[self.name].weight

    @property
    def provider(self) -> str:
        """The provider as deliveries name it. Another kind under the same name is another provider."""
        return self.name if self.name == self.kind else f"{self.name} ({self.kind})"

    @property
    def pausable(self) -> Sequence[Sequence[str]]:
        return ((self.name, self.kind),)

    @property
    def connect_seconds_max(self) -> float:
        return min(CONNECT_SECONDS_MAX, self.settings.call_seconds_max)

    def unready(self, now: float, why: str) -> None:
        """It cannot be reached or refuses us: the others get its deliveries for a while."""
        self._failed(now, why, final=True)

    def judge(self, now: float, verdict: Verdict) -> None:
        """Note what a verdict other than Accepted says about the provider."""
        self.verdicts[type(verdict).__name__.lower()] += 1
        if isinstance(verdict, Refused | RetryAfter) and verdict.provider_fault:
            self.unready(now, verdict.reason)
        elif isinstance(verdict, Refused | Throttled):
            self.breaker.succeeded()
        elif isinstance(verdict, RetryAfter | Unknown):
            self._failed(now, "its calls failed", final=False)

    def _failed(self, now: float, why: str, *, final: bool) -> None:
        # Calls that were under way when it opened say nothing new.
        if self.breaker.wait(now) <= 0 or self.breaker.is_probing:
            self.breaker.failed(now, why, final)

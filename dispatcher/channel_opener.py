"""The channels of the configuration: opened, and opened anew where a reload changes what they are made of."""

from collections.abc import Mapping
from typing import Any

import structlog
from msgspec import Struct

from channels.capture.channel import Connect
from channels.contract import Channel
from channels.registry import Targets, open_channel, targets_of
from channels.shared.breaker import Breaker
from channels.targets import Receiver
from dispatcher.base.clock import Clock
from dispatcher.config import fingerprints
from dispatcher.config.settings import Channel as Settings
from dispatcher.config.settings import ChannelProvider, Config, Receipts
from dispatcher.engine.providers.terms import ProviderTerms, Terms
from dispatcher.engine.rules.rates import Rates
from dispatcher.features.receipts.providers import twilio

log = structlog.get_logger(__name__)

# A provider of some name with what its channel is made of: a change of it needs another channel.
Made = Mapping[str, tuple[Any, ...]]


class ChannelOpener(Struct, frozen=True):
    """Opens the channels of a configuration."""

    config: Config
    connect: Connect
    clock: Clock

    def open(self, name: str, settings: Settings) -> Terms:
        """Open a channel, with all its providers."""
        return self._open(name, settings, Rates(self.clock.monotonic(), *self._rates(settings)), {})

    def reopen(self, name: str, terms: Terms, old: Config) -> Terms:
        """Return the terms after a reload: the same ones where only limits changed, else others with the channels of
        those providers that are what they were."""
        settings, now = self.config.channels[name], self.clock.monotonic()
        before, made = _made_of(old.channels[name], old), _made_of(settings, self.config)
        if list(before.items()) == list(made.items()) and bool(terms.several) == bool(settings.providers):
            terms.settings, terms.retry = settings, self.config.retry
            for one in terms.several:
                self._adopt(one, settings)
        else:
            kept = {one.name: one for one in terms.several if before[one.name] == made.get(one.name)}
            terms = self._open(name, settings, terms.rates, kept)
        terms.rates.tune(now, *self._rates(settings))
        return terms

    def _open(self, name: str, settings: Settings, rates: Rates, kept: Mapping[str, ProviderTerms]) -> Terms:
        made = _made_of(settings, self.config)
        prints = {one: fingerprints.of_channel(*made[one]) for one in made}
        common = self.config.retry, rates, self.config.instance.licence_seconds
        if not settings.providers:
            (only,) = settings.each_provider.values()
            return Terms(self._channel(name, only, settings), settings, *common, prints[settings.provider])
        several = tuple(kept.get(key) or self._provider(name, key, settings) for key in settings.providers)
        for one in several:
            self._adopt(one, settings)
        return Terms(several[0].channel, settings, *common, fingerprints.of_several(prints), several=several)

    def _provider(self, name: str, key: str, settings: Settings) -> ProviderTerms:
        one = settings.providers[key]
        return ProviderTerms(
            self._channel(name, one, settings),
            settings,
            self.config.retry,
            Rates(self.clock.monotonic(), *self._rates(one)),
            self.config.instance.licence_seconds,
            name=key,
            breaker=Breaker(one.breaker_failures, one.breaker_seconds),
        )

    def _adopt(self, provider: ProviderTerms, settings: Settings) -> None:
        """Continue with a provider under other limits."""
        one = settings.providers[provider.name]
        provider.settings, provider.retry = settings, self.config.retry
        provider.rates.tune(self.clock.monotonic(), *self._rates(one))
        provider.breaker.tune(one.breaker_failures, one.breaker_seconds)

    def _rates(self, limits: Settings | ChannelProvider) -> tuple[float, float, float, float]:
        """The limits that are this cell's: providers and domains serve all cells. A tenant is in one."""
        rate, burst, tenant, domain = limits.rates
        share = self.config.cell.share
        return rate * share, burst * share, tenant, domain * share

    def _channel(self, name: str, one: ChannelProvider, settings: Settings) -> Channel:
        log.debug("channel.opened", channel=name, provider=one.provider)
        return open_channel(one.provider, settings.faults, self.connect, one.options, targets(self.config))


def _made_of(settings: Settings, config: Config) -> Made:
    """Return what each provider of a channel is made of, in their order."""
    named = targets(config)
    return {
        name: (one.provider, one.options, settings.faults, dict(targets_of(one.provider, named)))
        for name, one in settings.each_provider.items()
    }


def targets(config: Config) -> Targets:
    """Return what channels are made with beside their options."""
    return Targets(config.functions, config.webhooks, _receivers(config.receipts))


def _receivers(receipts: Receipts) -> Mapping[str, Receiver]:
    """Return the URLs that messages carry for reports about them, by provider: where those would be taken."""
    if not receipts.twilio_tokens:
        return {}
    return {"twilio": Receiver(twilio.receiver_url(receipts.public_url))}

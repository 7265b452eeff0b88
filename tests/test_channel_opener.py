"""Channels are opened by their settings, and a reload opens only what is made of something else."""

from contextlib import AbstractAsyncContextManager
from typing import Any

from msgspec import structs

from dispatcher.base.clock import Clock
from dispatcher.channel_opener import ChannelOpener
from dispatcher.config.cell import Cell
from dispatcher.config.settings import Channel, ChannelProvider, Config
from dispatcher.engine.providers.terms import Terms

LEDGER = {"main": ChannelProvider(provider="ledger", weight=1.0), "spare": ChannelProvider(provider="blackhole")}


def _connect() -> AbstractAsyncContextManager[Any]:
    raise AssertionError("no channel here has to do with the database")


def _opened(channel: Channel) -> tuple[Config, Terms]:
    config = Config(channels={"sms": channel})
    return config, ChannelOpener(config, _connect, Clock()).open("sms", channel)


def _reopened(terms: Terms, old: Config, channel: Channel) -> Terms:
    new = structs.replace(old, channels={"sms": channel})
    return ChannelOpener(new, _connect, Clock()).reopen("sms", terms, old)


def _channels(terms: Terms) -> list[object]:
    return [part.channel for part in terms.parts]


def test_limits_change_without_a_channel_being_opened() -> None:
    old, terms = _opened(Channel(providers=LEDGER))
    before = _channels(terms)
    lighter = LEDGER | {"main": structs.replace(LEDGER["main"], weight=0.0, rate_per_second=5.0, breaker_failures=2)}
    same = _reopened(terms, old, Channel(providers=lighter, overflow=True))
    assert same is terms
    assert _channels(terms) == before
    assert (terms.several[0].weight, terms.several[0].rates.provider.rate, terms.settings.overflow) == (0.0, 5.0, True)


def test_a_change_of_one_provider_leaves_the_others_open() -> None:
    old, terms = _opened(Channel(providers=LEDGER))
    moved = LEDGER | {"main": structs.replace(LEDGER["main"], options={"port": 9})}
    other = _reopened(terms, old, Channel(providers=moved))
    assert other.several[0].channel is not terms.several[0].channel
    assert other.several[1] is terms.several[1]
    assert other.fingerprint != terms.fingerprint


def test_another_order_keeps_every_channel_and_is_told_to_replicas() -> None:
    old, terms = _opened(Channel(providers=LEDGER))
    other = _reopened(terms, old, Channel(providers=dict(reversed(LEDGER.items()))))
    assert list(other.several) == list(reversed(terms.several))
    assert other.fingerprint != terms.fingerprint


def test_one_provider_becomes_several_and_keeps_its_name_for_deliveries() -> None:
    old, terms = _opened(Channel(provider="ledger"))
    several = {"ledger": ChannelProvider(provider="ledger"), "spare": ChannelProvider(provider="blackhole")}
    other = _reopened(terms, old, Channel(providers=several))
    assert terms.provider == "ledger"
    assert [one.provider for one in other.several] == ["ledger", "spare (blackhole)"]
    assert terms.channel not in _channels(other)
    assert _reopened(other, structs.replace(old, channels={"sms": Channel(providers=several)}), Channel()).several == ()


def test_a_cell_has_its_share_of_what_providers_and_domains_limit_and_all_of_a_tenants() -> None:
    channel = Channel(providers=LEDGER, rate_per_second=10.0, tenant_rate_per_second=8.0, domain_rate_per_second=6.0)
    limited = LEDGER | {"main": structs.replace(LEDGER["main"], rate_per_second=4.0)}
    channel = structs.replace(channel, providers=limited)
    config = Config(channels={"sms": channel}, cell=Cell(share=0.5))
    terms = ChannelOpener(config, _connect, Clock()).open("sms", channel)
    rates = terms.rates
    assert (rates.provider.rate, rates._tenant_rate, rates._domain_rate) == (5.0, 8.0, 3.0)
    assert terms.several[0].rates.provider.rate == 2.0
    whole = structs.replace(config, cell=Cell())
    again = ChannelOpener(whole, _connect, Clock()).reopen("sms", terms, config)
    assert (again.rates.provider.rate, again.several[0].rates.provider.rate) == (10.0, 4.0)

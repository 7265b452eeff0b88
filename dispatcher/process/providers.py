"""The providers of the configuration, each asked whether a call could begin."""

import asyncio
from collections.abc import Sequence

from msgspec import Struct

from channels.capture.channel import Connect
from channels.contract import Unready
from channels.registry import open_channel
from dispatcher.channel_opener import targets
from dispatcher.config.settings import Channel, ChannelProvider, Config

ANSWER_SECONDS_MAX = 15.0
# They have nothing to connect to before a call.
UNCONNECTED = ("blackhole", "capture", "functions", "webhooks")


class Readiness(Struct, frozen=True):
    """Whether a call of a provider could begin; else why not."""

    channel: str
    provider: str
    ready: bool
    reason: str = ""


async def readiness(config: Config, connect: Connect) -> Sequence[Readiness]:
    """Ask every provider at once that connects before a call."""
    asked = [
        _readiness(config, connect, name, key)
        for name, channel in config.channels.items()
        for key, one in channel.each_provider.items()
        if one.provider not in UNCONNECTED
    ]
    return await asyncio.gather(*asked)


async def _readiness(config: Config, connect: Connect, name: str, key: str) -> Readiness:
    channel = config.channels[name]
    try:
        async with asyncio.timeout(ANSWER_SECONDS_MAX):
            await _prepare(config, connect, channel, channel.each_provider[key])
    except Unready as trouble:
        return Readiness(name, key, ready=False, reason=str(trouble))
    except TimeoutError:
        return Readiness(name, key, ready=False, reason=f"it waited {ANSWER_SECONDS_MAX:g} s for a connection")
    except OSError as trouble:
        return Readiness(name, key, ready=False, reason=f"it cannot be reached ({type(trouble).__name__})")
    return Readiness(name, key, ready=True)


async def _prepare(config: Config, connect: Connect, settings: Channel, one: ChannelProvider) -> None:
    channel = open_channel(one.provider, settings.faults, connect, one.options, targets(config))
    try:
        await channel.prepare(1)
    finally:
        await channel.close()

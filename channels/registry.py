"""The registry: which providers there are, which options each takes, and how one is opened."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from channels.blackhole import Blackhole, BlackholeOptions
from channels.capture import Capture, CaptureOptions
from channels.capture.channel import Connect
from channels.contract import Channel
from channels.faults import FaultSettings, Faulty, any_fault
from channels.ledger import Ledger, LedgerOptions
from channels.resend import ResendOptions
from channels.smtp import Smtp, SmtpOptions

Scalar = str | int | float | bool
OptionsT = TypeVar("OptionsT", bound=Struct)


class _Provider(Struct, Generic[OptionsT], frozen=True):
    """One provider: the struct of its options, and how its channel is made from them."""

    options: type[OptionsT]
    make: Callable[[OptionsT, Connect], Channel]

    def open(self, options: Mapping[str, Scalar], connect: Connect) -> Channel:
        return self.make(msgspec.convert(dict(options), self.options), connect)


def _resend(options: ResendOptions, _connect: Connect) -> Channel:
    from channels.resend.channel import Resend  # noqa: PLC0415 - its HTTP client is a third of a command's imports

    return Resend(options)


_PROVIDERS: Mapping[str, _Provider[Any]] = {
    "blackhole": _Provider(BlackholeOptions, lambda _options, _connect: Blackhole()),
    "capture": _Provider(CaptureOptions, lambda options, connect: Capture(connect, options)),
    "ledger": _Provider(LedgerOptions, lambda options, _connect: Ledger(options)),
    "smtp": _Provider(SmtpOptions, lambda options, _connect: Smtp(options)),
    "resend": _Provider(ResendOptions, _resend),
}
# The options of each provider: with bounds, strict, and with a default each where there can be one.
PROVIDERS: Mapping[str, type[Struct]] = MappingProxyType({name: one.options for name, one in _PROVIDERS.items()})
_NOTHING: Mapping[str, Scalar] = MappingProxyType({})


def open_channel(
    provider: str, faults: FaultSettings, connect: Connect, options: Mapping[str, Scalar] = _NOTHING
) -> Channel:
    """A channel for a provider, with its options, and misbehaving as asked."""
    channel = _PROVIDERS[provider].open(options, connect)
    return Faulty(channel, faults) if any_fault(faults) else channel

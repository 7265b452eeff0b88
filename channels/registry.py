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
from channels.functions import FunctionSettings, FunctionsOptions
from channels.ledger import Ledger, LedgerOptions
from channels.resend import ResendOptions
from channels.slack import SlackOptions, WebhookSettings
from channels.smtp import Smtp, SmtpOptions
from channels.webhooks import WebhooksOptions

Scalar = str | int | float | bool
OptionsT = TypeVar("OptionsT", bound=Struct)


class Targets(Struct, frozen=True):
    """What recipients can name: functions and webhooks, by their names."""

    functions: Mapping[str, FunctionSettings] = MappingProxyType({})
    webhooks: Mapping[str, WebhookSettings] = MappingProxyType({})


class Environment(Struct, frozen=True):
    """What there is environment a channel that it may use."""

    connect: Connect
    named: Targets


class _Provider(Struct, Generic[OptionsT], frozen=True):
    """One provider: the struct of its options, how its channel is made from them, and what its recipients name."""

    options: type[OptionsT]
    make: Callable[[OptionsT, Environment], Channel]
    names: Callable[[Targets], Mapping[str, object]] = lambda _: {}

    def open(self, options: Mapping[str, Scalar], environment: Environment) -> Channel:
        return self.make(msgspec.convert(dict(options), self.options), environment)


# Their HTTP client is a third of what a command imports: who opens none of them does without it.
def _resend(options: ResendOptions, _environment: Environment) -> Channel:
    from channels.resend.channel import Resend  # noqa: PLC0415 - as above

    return Resend(options)


def _functions(_options: FunctionsOptions, environment: Environment) -> Channel:
    from channels.functions.channel import Functions  # noqa: PLC0415 - as above

    return Functions(environment.named.functions)


def _slack(options: SlackOptions, environment: Environment) -> Channel:
    from channels.slack.channel import Slack  # noqa: PLC0415 - as above

    return Slack(options, environment.named.webhooks)


def _webhooks(options: WebhooksOptions, environment: Environment) -> Channel:
    from channels.webhooks.channel import Webhooks  # noqa: PLC0415 - as above

    return Webhooks(options, environment.connect)


_PROVIDERS: Mapping[str, _Provider[Any]] = {
    "blackhole": _Provider(BlackholeOptions, lambda _options, _environment: Blackhole()),
    "capture": _Provider(CaptureOptions, lambda options, environment: Capture(environment.connect, options)),
    "ledger": _Provider(LedgerOptions, lambda options, _environment: Ledger(options)),
    "smtp": _Provider(SmtpOptions, lambda options, _environment: Smtp(options)),
    "resend": _Provider(ResendOptions, _resend),
    "functions": _Provider(FunctionsOptions, _functions, lambda named: named.functions),
    "slack": _Provider(SlackOptions, _slack, lambda named: named.webhooks),
    "webhooks": _Provider(WebhooksOptions, _webhooks),
}
# The options of each provider: with bounds, strict, and with a default each where there can be one.
PROVIDERS: Mapping[str, type[Struct]] = MappingProxyType({name: one.options for name, one in _PROVIDERS.items()})
_NOTHING: Mapping[str, Scalar] = MappingProxyType({})


def targets_of(provider: str, named: Targets) -> Mapping[str, object]:
    """What the recipients of a provider's messages can name, by its name; nothing where they name nothing of ours."""
    return _PROVIDERS[provider].names(named)


def open_channel(
    provider: str,
    faults: FaultSettings,
    connect: Connect,
    options: Mapping[str, Scalar] = _NOTHING,
    named: Targets = Targets(),  # noqa: B008 - frozen, as all that it holds
) -> Channel:
    """A channel for a provider, with its options, and misbehaving as asked."""
    channel = _PROVIDERS[provider].open(options, Environment(connect, named))
    return Faulty(channel, faults) if any_fault(faults) else channel

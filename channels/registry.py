"""The registry of providers: the options of each, and how its channel is opened."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Struct

from channels.blackhole import Blackhole
from channels.capture.channel import Capture, CaptureOptions, Connect
from channels.contract import Channel
from channels.faults import FaultSettings, Faulty, any_fault
from channels.fcm.options import FcmOptions
from channels.ledger.channel import Ledger, LedgerOptions
from channels.mastodon.options import MastodonOptions
from channels.resend.options import ResendOptions
from channels.signed_webhook.options import SignedWebhookOptions
from channels.slack.options import SlackOptions
from channels.smtp.channel import Smtp
from channels.smtp.options import SmtpOptions
from channels.targets import FunctionTarget, Receiver, Target
from channels.twilio.options import TwilioOptions
from channels.webhooks.options import WebhooksOptions

Scalar = str | int | float | bool
OptionsT = TypeVar("OptionsT", bound=Struct)


class NoOptions(Struct, frozen=True, forbid_unknown_fields=True):
    """The options of a provider that has none."""


class Targets(Struct, frozen=True):
    """The targets that recipients can name, functions and webhooks, and the receivers of reports by provider."""

    functions: Mapping[str, FunctionTarget] = MappingProxyType({})
    webhooks: Mapping[str, Target] = MappingProxyType({})
    receivers: Mapping[str, Receiver] = MappingProxyType({})


class Environment(Struct, frozen=True):
    """The services that a channel may use beside its options."""

    connect: Connect
    named: Targets


class _Provider(Struct, Generic[OptionsT], frozen=True):
    """A provider: the struct of its options, how its channel is made from them, and the targets that it takes."""

    options: type[OptionsT]
    make: Callable[[OptionsT, Environment], Channel]
    names: Callable[[Targets], Mapping[str, object]] = lambda _: {}


# The HTTP client is a third of what a command imports: it is imported where a channel is opened that needs it.
def _resend(options: ResendOptions, _environment: Environment) -> Channel:
    from channels.resend.channel import Resend  # noqa: PLC0415 - as above

    return Resend(options)


def _functions(_options: NoOptions, environment: Environment) -> Channel:
    from channels.functions.channel import Functions  # noqa: PLC0415 - as above

    return Functions(environment.named.functions)


def _twilio(options: TwilioOptions, environment: Environment) -> Channel:
    from channels.twilio.channel import Twilio  # noqa: PLC0415 - as above

    return Twilio(options, environment.named.receivers.get("twilio"))


def _slack(options: SlackOptions, environment: Environment) -> Channel:
    from channels.slack.channel import Slack  # noqa: PLC0415 - as above

    return Slack(options, environment.named.webhooks)


def _webhooks(options: WebhooksOptions, environment: Environment) -> Channel:
    from channels.webhooks.channel import Webhooks  # noqa: PLC0415 - as above

    return Webhooks(options, environment.connect)


def _fcm(options: FcmOptions, _environment: Environment) -> Channel:
    from channels.fcm.channel import Fcm  # noqa: PLC0415 - as above

    return Fcm(options)


def _mastodon(options: MastodonOptions, _environment: Environment) -> Channel:
    from channels.mastodon.channel import Mastodon  # noqa: PLC0415 - as above

    return Mastodon(options)


def _signed_webhook(options: SignedWebhookOptions, _environment: Environment) -> Channel:
    from channels.signed_webhook.channel import SignedWebhook  # noqa: PLC0415 - as above

    return SignedWebhook(options)


_PROVIDERS: Mapping[str, _Provider[Any]] = {
    "blackhole": _Provider(NoOptions, lambda _options, _environment: Blackhole()),
    "capture": _Provider(CaptureOptions, lambda options, environment: Capture(environment.connect, options)),
    "ledger": _Provider(LedgerOptions, lambda options, _environment: Ledger(options)),
    "smtp": _Provider(SmtpOptions, lambda options, _environment: Smtp(options)),
    "resend": _Provider(ResendOptions, _resend),
    "functions": _Provider(NoOptions, _functions, lambda named: named.functions),
    "slack": _Provider(SlackOptions, _slack, lambda named: named.webhooks),
    "twilio": _Provider(
        TwilioOptions,
        _twilio,
        lambda named: {name: one for name, one in named.receivers.items() if name == "twilio"},
    ),
    "webhooks": _Provider(WebhooksOptions, _webhooks),
    "fcm": _Provider(FcmOptions, _fcm),
    "mastodon": _Provider(MastodonOptions, _mastodon),
    "signed_webhook": _Provider(SignedWebhookOptions, _signed_webhook),
}
# The options of each provider: with bounds, strict, and with a default each where there can be one.
PROVIDERS: Mapping[str, type[Struct]] = MappingProxyType({name: one.options for name, one in _PROVIDERS.items()})
_NOTHING: Mapping[str, Scalar] = MappingProxyType({})


def targets_of(provider: str, named: Targets) -> Mapping[str, object]:
    """The targets that a provider's channel is made with, by name: a change of them needs another channel."""
    return _PROVIDERS[provider].names(named)


def open_channel(
    provider: str,
    faults: FaultSettings,
    connect: Connect,
    options: Mapping[str, Scalar] = _NOTHING,
    named: Targets = Targets(),  # noqa: B008 - frozen, as all that it holds
) -> Channel:
    """The channel of a provider, with its options and the faults that are asked for."""
    chosen = _PROVIDERS[provider]
    channel = chosen.make(msgspec.convert(dict(options), chosen.options), Environment(connect, named))
    return Faulty(channel, faults) if any_fault(faults) else channel

"""What a configuration lacks, in sentences."""

from collections.abc import Iterator

from dispatcher.config.settings import Config
from dispatcher.features.overview.models import LaneBacklog, Replica

_CAPTURE = "capture"


def lacks(config: Config, replicas: list[Replica], backlog: list[LaneBacklog]) -> list[str]:
    """Return what somebody should know about a configuration."""
    return [*_unserved(replicas, backlog), *_capturing(config), *_silent(config)]


def _unserved(replicas: list[Replica], backlog: list[LaneBacklog]) -> Iterator[str]:
    served = {channel for one in replicas for channel in one.channels if channel not in one.yielded}
    for channel in sorted({one.channel for one in backlog if one.deliveries} - served):
        yield f"{channel} has due deliveries, and no replica serves it"
    for one in replicas:
        if one.unready:
            yield f"{one.name} has no connection to the provider of {', '.join(one.unready)}"


def _capturing(config: Config) -> Iterator[str]:
    captured = [
        name
        for name, channel in sorted(config.channels.items())
        if all(one.provider == _CAPTURE for one in channel.each_provider.values())
    ]
    if captured:
        which = (
            "Every channel captures" if len(captured) == len(config.channels) else f"Captured: {', '.join(captured)}"
        )
        yield f"{which}. Nothing leaves this machine; messages are in the inbox"


def _silent(config: Config) -> Iterator[str]:
    if not config.alerts.slack:
        yield "No alert goes anywhere: set alerts.slack"
    email = config.channels.get("email")
    sends = email is not None and any(one.provider != _CAPTURE for one in email.each_provider.values())
    if sends and not config.unsubscribe.public_url:
        yield "Mails have no unsubscribe link: set unsubscribe.public_url and unsubscribe.secrets"

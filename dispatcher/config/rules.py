"""Relations between configured values: what must hold in addition to each value's own bounds."""

import math
import ssl
from collections.abc import Iterator
from importlib.util import find_spec
from ipaddress import ip_network
from urllib.parse import urlsplit

from msgspec import Struct

from dispatcher.base.values.staging import REDIRECTED, read_allow_list, read_redirects
from dispatcher.config.fields import Keys
from dispatcher.config.settings import Channel, Config, Faults, Function, Instance, Webhook

# 0.1 seven times over is a little more than 0.7.
ROUNDING = 1e-9

# Below this many heartbeats in a lease one lost heartbeat and a slow one fence a healthy process.
HEARTBEATS_PER_LEASE = 2.5

# The provider whose calls are bounded by each function and by their channel.
FUNCTIONS = "functions"
# Providers whose recipients are names or numbers of the dispatcher's own.
ADDRESSED = frozenset({"functions", "webhooks"})
# A section, a key, and the module and extra without which it cannot be given.
EXTRAS = (
    ("tracing", "endpoint", "opentelemetry.exporter.otlp.proto.http.trace_exporter", "otel"),
    ("alerts", "sentry", "sentry_sdk", "sentry"),
)
OUTCOMES = ("refuse", "bounce", "retry", "throttle", "unknown", "hang")
# A section, a key that must be given where another one is given, and why.
NEEDED = {
    "database url listen_url": "listen_url is the direct way to the database that url leads to through a pooler",
    "database listen_url pooler_prepares": "pooler_prepares is for a pooler; LISTEN needs the URL of Postgres itself",
    "unsubscribe secrets public_url": (
        "links to public_url must be signed, for example with what `openssl rand -hex 32` prints"
    ),
    "unsubscribe public_url secrets": "it is where the links that the secrets sign lead to",
    "receipts public_url twilio_tokens": "Twilio signs the URL that it calls, so that we must know it",
    "receipts ses_certificates ses_topics": "it has the key that messages of ses_topics are signed with",
    "receipts ses_topics ses_certificates": (
        "the key of ses_certificates signs the messages of everybody's topics, and not only of ours"
    ),
}


class Relation(Struct, frozen=True):
    """One relation, already judged: the key that a fault is named for, all keys that it reads, and the fault."""

    at: Keys
    reads: tuple[Keys, ...]
    holds: bool
    message: str


def relations(config: Config) -> Iterator[Relation]:
    """Yield every relation, whether it holds or not."""
    yield from _instance(config.instance)
    for keys, message in NEEDED.items():
        section, key, because = keys.split()
        table = getattr(config, section)
        needed = getattr(table, key) or not getattr(table, because)
        yield _relation(section, f"{key} {because}", needed, f"is missing: {message}")
    retry, flush = config.retry, config.flush
    yield _relation(
        "retry",
        "base_seconds cap_seconds",
        retry.base_seconds <= retry.cap_seconds,
        f"must not be over cap_seconds ({retry.cap_seconds:g}), got {retry.base_seconds:g}",
    )
    yield _relation(
        "flush",
        "batch_max pending_max",
        flush.batch_max <= flush.pending_max,
        f"must not be over pending_max ({flush.pending_max}) or a batch never fills, got {flush.batch_max}",
    )
    certificates = config.receipts.ses_certificates
    are_certificates = not certificates or _are_certificates(certificates)
    yield _relation("receipts", "ses_certificates", are_certificates, "has something that is no certificate")
    for section, key, module, extra in EXTRAS:
        is_met = not getattr(getattr(config, section), key) or _is_installed(module)
        words = f"needs packages that are not installed: pip install 'dispatcher[{extra}]'"
        yield _relation(section, key, is_met, words)
    yield from _staging(config)
    yield from _called(("alerts",), "slack", config.alerts.slack, config.alerts.allow_addresses)
    for name, channel in config.channels.items():
        yield from _channel(("channels", name), channel)
    for name, function in config.functions.items():
        yield from _target(("functions", name), function)
        yield from _call_times(name, function, config)
    for name, webhook in config.webhooks.items():
        yield from _target(("webhooks", name), webhook)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except (ImportError, ValueError):
        return False


def _staging(config: Config) -> Iterator[Relation]:
    """Yield the relations of staging: its words can be read, and name channels that there are."""
    staging, known = config.staging, ", ".join(sorted(config.channels))
    try:
        channels = read_allow_list(staging.allow).channels
    except ValueError as fault:
        yield _relation("staging", "allow", holds=False, message=str(fault))
    else:
        unknown = sorted(channels - config.channels.keys())
        words = f"names the channel {', '.join(unknown)}, which there is not; there are {known}"
        yield _relation("staging", "allow", not unknown, words)
    try:
        redirected = read_redirects(staging.redirect)
    except ValueError as fault:
        yield _relation("staging", "redirect", holds=False, message=str(fault))
        return
    for channel in redirected:
        at = ("staging", "redirect")
        settings = config.channels.get(channel)
        words = f"names the channel {channel}, which there is not; there are {known}"
        yield Relation(at, (at,), settings is not None, words)
        providers = [] if settings is None else [one.provider for one in settings.each_provider.values()]
        stuck = ", ".join(one for one in providers if one not in REDIRECTED)
        words = f"names {channel}, and {stuck} sends to no other recipient: put channel:{channel} into allow instead"
        yield Relation(at, (at, ("channels", channel, "provider")), not stuck, words)


def _relation(section: str | Keys, keys: str, holds: object, message: str) -> Relation:
    """Return a relation between keys of a section; it is named for the first of them."""
    at = (section,) if isinstance(section, str) else section
    reads = tuple((*at, key) for key in keys.split())
    return Relation(reads[0], reads, bool(holds), message)


def _instance(instance: Instance) -> Iterator[Relation]:
    lease, heartbeat, licence = instance.lease_seconds, instance.heartbeat_seconds, instance.licence_seconds
    yield _relation(
        "instance",
        "licence_seconds heartbeat_seconds lease_seconds",
        licence + heartbeat <= lease + ROUNDING,
        f"plus one heartbeat ({heartbeat:g}) must fit into lease_seconds ({lease:g}), or a call could begin after"
        f" others took over, got {licence:g}",
    )
    yield _relation(
        "instance",
        "lease_seconds heartbeat_seconds",
        lease + ROUNDING >= HEARTBEATS_PER_LEASE * heartbeat,
        f"must be at least {HEARTBEATS_PER_LEASE} heartbeats of {heartbeat:g}, or one late heartbeat loses it,"
        f" got {lease:g}",
    )


def _are_certificates(text: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text.strip())
    except (ssl.SSLError, ValueError):
        return False
    return True


def _channel(section: Keys, channel: Channel) -> Iterator[Relation]:
    yield _burst(section, channel.rate_burst)
    yield _faults((*section, "faults"), channel.faults)
    for name, one in channel.providers.items():
        table = (*section, "providers", name)
        yield _burst(table, one.rate_burst)
        yield _relation(
            table,
            "provider",
            one.provider not in ADDRESSED,
            f"{one.provider} cannot be one of several: its recipients are its own, and no other provider reaches them",
        )


def _burst(section: Keys, burst: float) -> Relation:
    return _relation(
        section,
        "rate_burst",
        burst == 0 or burst >= 1,
        f"must be 0 or at least 1, or the bucket never holds a whole token, got {burst:g}",
    )


def _target(section: Keys, target: Function | Webhook) -> Iterator[Relation]:
    yield _relation(section, "url", target.url, "is missing: it is what the name stands for")
    yield from _called(section, "url", target.url, target.allow_addresses)


def _called(section: Keys, key: str, url: str, allowed: str) -> Iterator[Relation]:
    """Yield the relations of a URL that is called, under whichever key."""
    yield _relation(section, key, _has_host_and_port(url) or not url, "has a host or a port that is none")
    yield _relation(
        section,
        f"{key} allow_addresses",
        allowed.split() or not url.startswith("http://"),
        "begins with http://, so that whoever is on the way can read all of it: that is for addresses only that"
        " allow_addresses names",
    )
    yield _relation(
        section,
        "allow_addresses",
        _are_ranges(allowed),
        "has something that is no range of addresses, such as 10.1.0.0/16, 10.1.2.3 or fd00::/8",
    )


def _are_ranges(text: str) -> bool:
    try:
        return all(map(ip_network, text.split()))
    except ValueError:
        return False


def _has_host_and_port(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _call_times(name: str, function: Function, config: Config) -> Iterator[Relation]:
    at = ("functions", name, "timeout_seconds")
    for channel, settings in config.channels.items():
        if settings.provider == FUNCTIONS:
            limit = settings.call_seconds_max
            yield Relation(
                at,
                (at, ("channels", channel, "call_seconds_max"), ("channels", channel, "provider")),
                function.timeout_seconds <= limit,
                f"must not be over call_seconds_max of [channels.{channel}] ({limit:g}), which ends every call, got"
                f" {function.timeout_seconds:g}",
            )


def _faults(section: Keys, faults: Faults) -> Relation:
    shares = (faults.refuse, faults.bounce, faults.retry, faults.throttle, faults.unknown, faults.hang)
    total = math.fsum(shares)
    reads = tuple((*section, outcome) for outcome in OUTCOMES)
    return Relation(section, reads, total <= 1 + ROUNDING, f"{' + '.join(OUTCOMES)} must not be over 1, got {total:g}")

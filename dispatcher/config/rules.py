"""The relations between configured values: what must hold although each value is within its own bounds."""

import math
import ssl
from collections.abc import Iterator
from ipaddress import ip_network
from urllib.parse import urlsplit

from msgspec import Struct

from dispatcher.config.fields import Keys
from dispatcher.config.settings import Alerts, Channel, Config, Database, Faults, Function, Instance, Receipts, Webhook

# 0.1 seven times over is a little more than 0.7.
ROUNDING = 1e-9

# Below this many heartbeats in a lease one lost heartbeat and a slow one fence a healthy process.
HEARTBEATS_PER_LEASE = 2.5

# The provider whose calls are bounded by each function and by their channel.
FUNCTIONS = "functions"
OUTCOMES = ("refuse", "bounce", "retry", "throttle", "unknown", "hang")


class Relation(Struct, frozen=True):
    """One relation, already judged: the key that a fault is named for, all keys that it reads, and why it is there."""

    at: Keys
    reads: tuple[Keys, ...]
    holds: bool
    message: str


def relations(config: Config) -> Iterator[Relation]:
    """Every relation, whether it holds or not."""
    yield from _instance(config.instance)
    yield from _database(config.database)
    retry, flush = config.retry, config.flush
    yield _relation(
        ("retry",),
        ("base_seconds", "cap_seconds"),
        retry.base_seconds <= retry.cap_seconds,
        f"must not be over cap_seconds ({retry.cap_seconds:g}), got {retry.base_seconds:g}",
    )
    yield _relation(
        ("flush",),
        ("batch_max", "pending_max"),
        flush.batch_max <= flush.pending_max,
        f"must not be over pending_max ({flush.pending_max}) or a batch never fills, got {flush.batch_max}",
    )
    links = config.unsubscribe
    yield _relation(
        ("unsubscribe",),
        ("secrets", "public_url"),
        bool(links.secrets) or not links.public_url,
        "is missing: links to public_url must be signed, for example with what `openssl rand -hex 32` prints",
    )
    yield _relation(
        ("unsubscribe",),
        ("public_url", "secrets"),
        bool(links.public_url) or not links.secrets,
        "is missing: it is where the links that the secrets sign lead to",
    )
    yield from _receipts(config.receipts)
    yield from _alerts(config.alerts)
    for name, channel in config.channels.items():
        yield from _channel(("channels", name), channel)
    for name, function in config.functions.items():
        yield from _target(("functions", name), function)
        yield from _call_times(name, function, config)
    for name, webhook in config.webhooks.items():
        yield from _target(("webhooks", name), webhook)


def _relation(section: Keys, keys: Keys, holds: bool, message: str) -> Relation:
    reads = tuple((*section, key) for key in keys)
    return Relation(reads[0], reads, holds, message)


def _database(database: Database) -> Iterator[Relation]:
    yield _relation(
        ("database",),
        ("url", "listen_url"),
        bool(database.url) or not database.listen_url,
        "is missing: listen_url is the direct way to the database that url leads to through a pooler",
    )
    yield _relation(
        ("database",),
        ("listen_url", "pooler_prepares"),
        bool(database.listen_url) or not database.pooler_prepares,
        "is missing: pooler_prepares is for a pooler, and LISTEN needs the URL of Postgres itself",
    )


def _instance(instance: Instance) -> Iterator[Relation]:
    lease, heartbeat, licence = instance.lease_seconds, instance.heartbeat_seconds, instance.licence_seconds
    yield _relation(
        ("instance",),
        ("licence_seconds", "heartbeat_seconds", "lease_seconds"),
        licence + heartbeat <= lease + ROUNDING,
        f"plus one heartbeat ({heartbeat:g}) must fit into lease_seconds ({lease:g}), or a call could begin after"
        f" others took over, got {licence:g}",
    )
    yield _relation(
        ("instance",),
        ("lease_seconds", "heartbeat_seconds"),
        lease + ROUNDING >= HEARTBEATS_PER_LEASE * heartbeat,
        f"must be at least {HEARTBEATS_PER_LEASE} heartbeats of {heartbeat:g}, or one late heartbeat loses it,"
        f" got {lease:g}",
    )


def _receipts(receipts: Receipts) -> Iterator[Relation]:
    at = ("receipts",)
    topics, certificates = receipts.ses_topics, receipts.ses_certificates
    yield _relation(
        at,
        ("public_url", "twilio_tokens"),
        bool(receipts.public_url) or not receipts.twilio_tokens,
        "is missing: Twilio signs the URL that it calls, so that we must know it",
    )
    yield _relation(
        at,
        ("ses_certificates", "ses_topics"),
        bool(certificates) or not topics,
        "is missing: it has the key that messages of ses_topics are signed with",
    )
    yield _relation(
        at,
        ("ses_topics", "ses_certificates"),
        bool(topics) or not certificates,
        "is missing: the key of ses_certificates signs the messages of everybody's topics, and not only of ours",
    )
    yield _relation(
        at,
        ("ses_certificates",),
        not certificates or _are_certificates(certificates),
        "has something that is no certificate",
    )


def _are_certificates(text: str) -> bool:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text.strip())
    except (ssl.SSLError, ValueError):
        return False
    return True


def _channel(section: Keys, channel: Channel) -> Iterator[Relation]:
    burst = channel.rate_burst
    yield _relation(
        section,
        ("rate_burst",),
        burst == 0 or burst >= 1,
        f"must be 0 or at least 1, or the bucket never holds a whole token, got {burst:g}",
    )
    yield _faults((*section, "faults"), channel.faults)


def _alerts(alerts: Alerts) -> Iterator[Relation]:
    yield from _called(("alerts",), "slack", alerts.slack, alerts.allow_addresses)


def _target(section: Keys, target: Function | Webhook) -> Iterator[Relation]:
    yield _relation(section, ("url",), bool(target.url), "is missing: it is what the name stands for")
    yield from _called(section, "url", target.url, target.allow_addresses)


def _called(section: Keys, key: str, url: str, allowed: str) -> Iterator[Relation]:
    """What holds of a URL that is called, under whichever key it stands."""
    ranges_sound, named = _are_ranges(allowed), bool(allowed.split())
    yield _relation(section, (key,), _has_host_and_port(url) or not url, "has a host or a port that is none")
    yield _relation(
        section,
        (key, "allow_addresses"),
        named or not url.startswith("http://"),
        "begins with http://, so that whoever is on the way can read all of it: that is for addresses only that"
        " allow_addresses names",
    )
    yield _relation(
        section,
        ("allow_addresses",),
        ranges_sound,
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

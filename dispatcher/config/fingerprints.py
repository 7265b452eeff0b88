"""Fingerprints: what replicas compare of their configurations. They are hashes, since any reader of the database sees
them and a configuration has secrets."""

import hashlib
from collections.abc import Mapping

import msgspec

from dispatcher.config.settings import Config, Faults, Staging

# How fast and how patiently a channel works, and not where and how its messages go: replicas may differ in these, so
# that a change of them can be rolled out while all of them work.
PACE = frozenset(
    {
        "answer_bytes_max",
        "answer_seconds_max",
        "batch_max",
        "breaker_failures",
        "breaker_seconds",
        "connect_seconds_max",
        "connection_seconds",
        "connections",
        "idle_seconds",
        "messages_per_connection",
        "throttle_seconds",
        "timeout_seconds",
    }
)


def of_config(config: Config) -> str:
    """The settings that replicas must have in common: all but names, listeners and logs."""
    beat = (config.instance.heartbeat_seconds, config.instance.lease_seconds, config.instance.licence_seconds)
    deciding = (config.claim, config.flush, config.retry, config.limits, config.unsubscribe)
    return _hash((beat, deciding, config.channels, config.functions, config.webhooks, config.staging))


def of_channel(provider: str, options: Mapping[str, object], faults: Faults, named: Mapping[str, object]) -> str:
    """The settings that decide how a channel treats a delivery: its provider by name, and a hash of the rest."""
    targets = {name: _paceless(msgspec.to_builtins(target)) for name, target in named.items()}
    return f"{provider}:{_hash((_paceless(options), faults, targets))}"


def of_several(providers: Mapping[str, str]) -> str:
    """The same of a channel with several providers, of their names and fingerprints. Their order counts."""
    return f"{'+'.join(providers)}:{_hash(list(providers.items()))}"


def staged(fingerprint: str, staging: Staging) -> str:
    """The same of a channel in staging: a replica that sends to everybody would make nothing of another's staging."""
    return f"{fingerprint}:{_hash(staging)}" if staging.enabled else fingerprint


def provider_of(fingerprint: str) -> str:
    """The provider of a channel's fingerprint."""
    return fingerprint.partition(":")[0]


def _paceless(options: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in options.items() if name not in PACE}


def _hash(value: object) -> str:
    return hashlib.sha256(msgspec.json.encode(value, order="sorted")).hexdigest()[:16]

"""A reload: which configured values changed, which of them may change in a running process, and what results."""

from collections.abc import Iterator, Mapping
from typing import TypeVar, cast

from msgspec import Struct, structs

from dispatcher.config.settings import Config

Keys = tuple[str, ...]
S = TypeVar("S", bound=Struct)

# What may change while running. Anything else needs a restart, so that a key nobody thought of is never half applied.
# A star is one key; two stars are one or more, so that `channels.*.**` is inside a channel and never a whole one.
LIVE = (
    "log.level",
    "limits.**",
    "retry.**",
    "claim.**",
    "flush.**",
    "walk.**",
    "janitor.**",
    "unsubscribe.**",
    "receipts.**",
    "alerts.**",
    "api.body_bytes_max",
    "api.batch_bytes_max",
    "api.body_seconds_max",
    "api.request_seconds_max",
    "api.key_rate_per_second",
    "api.key_rate_burst",
    "api.shed_after_seconds",
    "api.operators",
    "channels.*.**",
    # They come and go by themselves: nothing runs for one but its calls.
    "functions",
    "functions.**",
    "webhooks",
    "webhooks.**",
)


class Changes(Struct, frozen=True):
    """What differs, by dotted path: already in force after the reload, or kept as it was until a restart."""

    applied: tuple[str, ...]
    needs_restart: tuple[str, ...]


def diff(old: Config, new: Config) -> Changes:
    """Every path whose value differs. A channel that came or went is one path."""
    changed = sorted(_changed(old, new, ()))
    return Changes(
        applied=tuple(".".join(keys) for keys in changed if is_live(keys)),
        needs_restart=tuple(".".join(keys) for keys in changed if not is_live(keys)),
    )


def merge(old: Config, new: Config) -> Config:
    """The new configuration, with all that needs a restart kept from the old one."""
    return _merged(old, new, ())


def is_live(keys: Keys) -> bool:
    """Whether a value at this path may change in a running process."""
    return any(_matches(tuple(pattern.split(".")), keys) for pattern in LIVE)


def _matches(pattern: Keys, keys: Keys) -> bool:
    if pattern[-1] == "**":
        head = len(pattern) - 1
        return len(keys) > head and _matches_each(pattern[:head], keys[:head])
    return _matches_each(pattern, keys)


def _matches_each(pattern: Keys, keys: Keys) -> bool:
    return len(pattern) == len(keys) and all(p in ("*", key) for p, key in zip(pattern, keys, strict=True))


def _changed(old: object, new: object, at: Keys) -> Iterator[Keys]:
    before, after = _children(old), _children(new)
    if before is None or after is None:
        if old != new:
            yield at
        return
    for key in before.keys() ^ after.keys():
        yield (*at, key)
    for key in before.keys() & after.keys():
        yield from _changed(before[key], after[key], (*at, key))


def _children(value: object) -> Mapping[str, object] | None:
    match value:
        case Struct():
            return structs.asdict(value)
        case dict():
            return value
        case _:
            return None


def _merged(old: S, new: S, at: Keys) -> S:
    kept = {key: _merged_value(value, getattr(new, key), (*at, key)) for key, value in structs.asdict(old).items()}
    return structs.replace(old, **kept)


def _merged_value(old: object, new: object, at: Keys) -> object:
    if is_live(at):
        # With all that is below it: a table in which keys come and go, as a provider's options, is taken as it is.
        return new
    if isinstance(old, Struct):
        return _merged(old, cast("Struct", new), at)
    if isinstance(old, dict) and isinstance(new, dict):
        return {key: _merged_value(value, new.get(key, value), (*at, key)) for key, value in old.items()}
    return old

"""A reload: which configured values changed, which of them may change in a running process, and what results."""

import re
from collections.abc import Iterator, Mapping
from typing import cast

from msgspec import Struct, structs

from dispatcher.config.settings import Config

Keys = tuple[str, ...]

# What may change while running. Anything else needs a restart, so that a forgotten key is never half applied.
# A star is one key; two stars are one or more, so that `channels.*.**` is inside a channel and never a whole one.
LIVE = (
    "log.level",
    "limits.**",
    "retry.**",
    "claim.**",
    "flush.**",
    "walk.**",
    "campaigns.**",
    "janitor.**",
    "unsubscribe.**",
    "receipts.**",
    "alerts.**",
    "staging.**",
    "api.body_bytes_max",
    "api.batch_bytes_max",
    "api.body_seconds_max",
    "api.request_seconds_max",
    "api.key_rate_per_second",
    "api.key_rate_burst",
    "api.shed_after_seconds",
    "api.operators",
    "channels.*.**",
    # Nothing runs for a function or a webhook but its calls.
    "functions",
    "functions.**",
    "webhooks",
    "webhooks.**",
)
# Keys may hold dots themselves: a NUL separates them.
_LIVE = re.compile(
    "|".join(path.replace(".", "\0").replace("**", ".+").replace("*", "[^\0]+") for path in LIVE), re.DOTALL
)


class Changes(Struct, frozen=True):
    """The differences by dotted path: in force after the reload, or unchanged until a restart."""

    applied: tuple[str, ...]
    needs_restart: tuple[str, ...]


def diff(old: Config, new: Config) -> Changes:
    """Return every path whose value differs. A channel that came or went is one path."""
    changed = sorted(_changed(old, new, ()))
    stays = {keys for keys in changed if not is_live(keys) or (keys[0] == "staging" and _leaves_staging(old, new))}
    return Changes(
        applied=tuple(".".join(keys) for keys in changed if keys not in stays),
        needs_restart=tuple(".".join(keys) for keys in changed if keys in stays),
    )


def merge(old: Config, new: Config) -> Config:
    """Return the new configuration, with all that needs a restart taken from the old one."""
    merged = cast("Config", _merged(old, new, ()))
    return structs.replace(merged, staging=old.staging) if _leaves_staging(old, new) else merged


def _leaves_staging(old: Config, new: Config) -> bool:
    """Whether a reload would end staging. A table that is missing by mistake must not: all that is due would go out."""
    return old.staging.enabled and not new.staging.enabled


def is_live(keys: Keys) -> bool:
    """Return whether a value at this path may change in a running process."""
    return _LIVE.fullmatch("\0".join(keys)) is not None


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
    if isinstance(value, Struct):
        return structs.asdict(value)
    return value if isinstance(value, dict) else None


def _merged(old: object, new: object, at: Keys) -> object:
    if is_live(at):
        # With all that is below it: a table in which keys come and go, as a provider's options, is taken whole.
        return new
    before, after = _children(old), _children(new)
    if before is None or after is None:
        return old
    merged = {key: _merged(value, after.get(key, value), (*at, key)) for key, value in before.items()}
    return structs.replace(old, **merged) if isinstance(old, Struct) else merged

"""Checks of templates by the provider that sends them: what every message of one would be refused for."""

from collections.abc import Callable, Mapping
from functools import partial

from channels.mastodon.length import length_of, too_long
from channels.mastodon.options import CHARACTERS_MAX

# The faults of parts by name, for the text that is in every message, whatever the variables are.
Check = Callable[[Mapping[str, str]], Mapping[str, str]]


def template_check(provider: str, options: Mapping[str, str | int | float | bool]) -> Check | None:
    """The check of a channel's templates; None where its provider has none."""
    if provider != "mastodon":
        return None
    return partial(_post_faults, characters_max=int(options.get("characters_max", CHARACTERS_MAX)))


def _post_faults(parts: Mapping[str, str], characters_max: int) -> Mapping[str, str]:
    length = length_of(parts.get("body", "").strip())
    return {"body": too_long(length, characters_max)} if length > characters_max else {}

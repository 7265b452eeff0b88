"""Drafting: what has to be known of a workspace before drafts of templates can become versions there."""

from collections.abc import Collection, Sequence

from dispatcher.base.errors import did_you_mean, quoted
from dispatcher.features.templates import store
from dispatcher.features.templates.models import Locale, WholeTemplate
from dispatcher.features.templates.rules import Draft, Version
from dispatcher.features.templates.store import FindPublished
from dispatcher.liquid.partials import Partial, partials_used


async def library(find_published: FindPublished, drafts: Sequence[Draft], *, together: bool) -> dict[str, Partial]:
    """The partials that drafts take in: what is published, or first their own where they belong together."""
    texts = [part for draft in drafts for said in draft.locales.values() for part in said.values()]
    asked = sorted({use.name for one in texts for use in partials_used(one) if use.name is not None})
    found = await store.partials(find_published, asked)
    if together:
        own = (draft for draft in drafts if draft.channel is None)
        found |= {draft.name: draft.as_partial() for draft in own if draft.default_locale in draft.locales}
    return found


def misplaced(draft: Draft, before: WholeTemplate | None, channels: Collection[str]) -> str | None:
    """What is wrong with a draft where it is going, if anything is."""
    if draft.channel is not None and draft.channel not in channels:
        hint = did_you_mean(draft.channel, channels)
        return f"unknown channel {quoted(draft.channel)}{hint}; known are {', '.join(sorted(channels))}"
    if before is not None and before.channel != draft.channel:
        was = "a partial" if before.channel is None else f"for {before.channel}"
        return f"the template {draft.name} is {was}, and stays that: another needs a name of its own"
    return None


def same(version: Version, found: WholeTemplate) -> bool:
    """Whether a stored version says just this."""
    locales = {locale: Locale(dict(one.parts), dict(one.partials)) for locale, one in version.sources.items()}
    return (version.default_locale, version.rights, locales) == (found.default_locale, found.rights, found.locales)

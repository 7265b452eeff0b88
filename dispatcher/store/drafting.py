"""Drafting: what has to be known of a workspace before drafts of templates can become versions there."""

from collections.abc import Collection, Mapping, Sequence

from dispatcher.domain.drafts import Draft, Version
from dispatcher.domain.partials import Partial, used
from dispatcher.domain.template import Sources
from dispatcher.errors import did_you_mean, quoted
from dispatcher.store import templates
from dispatcher.store.templates import FindPublished, Found


async def library(find_published: FindPublished, drafts: Sequence[Draft], *, together: bool) -> dict[str, Partial]:
    """The partials that drafts take in: what is published, or first their own where they belong together."""
    texts = [part for draft in drafts for said in draft.locales.values() for part in said.values()]
    asked = sorted({use.name for one in texts for use in used(one) if use.name is not None})
    found = await templates.partials(find_published, asked)
    if together:
        own = (draft for draft in drafts if draft.channel is None)
        found |= {draft.name: draft.as_partial() for draft in own if draft.default_locale in draft.locales}
    return found


def misplaced(draft: Draft, before: Found | None, channels: Collection[str]) -> str | None:
    """What is wrong with a draft where it is going, if anything is."""
    if draft.channel is not None and draft.channel not in channels:
        hint = did_you_mean(draft.channel, channels)
        return f"unknown channel {quoted(draft.channel)}{hint}; known are {', '.join(sorted(channels))}"
    if before is not None and before.channel != draft.channel:
        was = "a partial" if before.channel is None else f"for {before.channel}"
        return f"the template {draft.name} is {was}, and stays that: another needs a name of its own"
    return None


def same(version: Version, found: Found) -> bool:
    """Whether a stored version says just this."""
    return (version.default_locale, version.rights, whole(version.sources)) == (
        found.default_locale,
        found.rights,
        whole(found.sources),
    )


Whole = dict[str, tuple[dict[str, str], dict[str, str]]]


def whole(sources: Mapping[str, Sources]) -> Whole:
    """All that is said, by locale: parts and partials."""
    return {locale: (dict(one.parts), dict(one.partials)) for locale, one in sources.items()}

"""Drafts of templates: their faults, the versions that they become, and previews."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

import msgspec
from msgspec import Struct

from channels.checks import Check
from dispatcher.base.errors import NeedsWorker
from dispatcher.base.values.locales import canonical
from dispatcher.base.values.names import NAME, NAME_WORDS
from dispatcher.liquid import parts
from dispatcher.liquid.language import count_nodes
from dispatcher.liquid.partials import Partial, closure
from dispatcher.liquid.render_limits import render_limits
from dispatcher.liquid.sample_variables import samples
from dispatcher.liquid.template import RAW_HTML, Bounds, Renderer, Sources, faults, literal, variables

RIGHTS = frozenset({RAW_HTML})
# A version is one row: with full parts in each, this many locales are 16 MB of it at the default limit.
LOCALES_MAX = 64
# How faults begin that are inside of a partial.
PARTIAL_PARTS = "partials."
# The key of a template that is rendered once.
_PREVIEW = "preview"


class Draft(Struct, frozen=True, kw_only=True):
    """A template to save. Without a channel it is a partial."""

    name: str
    channel: str | None
    default_locale: str
    # Liquid by part, by locale.
    locales: Mapping[str, Mapping[str, str]]
    rights: frozenset[str] = frozenset()

    def as_partial(self) -> Partial:
        """Return the draft as a partial that others include."""
        return Partial(self.default_locale, {locale: given.get("body", "") for locale, given in self.locales.items()})


class Version(Struct, frozen=True, kw_only=True):
    """The content of a draft with all partials that it includes and the variables that it reads."""

    default_locale: str
    sources: Mapping[str, Sources]
    rights: tuple[str, ...]
    variables: tuple[str, ...]


class Flaw(Struct, frozen=True):
    """A fault of a draft: in a part and line of a locale, or in the whole draft."""

    words: str
    locale: str = ""
    part: str = ""
    line: int = 0

    def place(self, default_locale: str) -> str:
        """Where it is, in short."""
        if not self.part:
            return self.locale or "template"
        locale = f" {self.locale}" if self.locale != default_locale else ""
        return f"{self.part}{locale}:{self.line}" if self.line else f"{self.part}{locale}"


def freeze(
    draft: Draft, library: Mapping[str, Partial], bytes_max: int, check: Check | None = None
) -> Version | list[Flaw]:
    """Return the version that a draft becomes with these partials, or all of its faults; `check` is its provider's."""
    found = list(_form(draft))
    # A partial has the rights of the template that includes it.
    rights = RIGHTS if draft.channel is None else draft.rights
    inside = (draft.name,) if draft.channel is None else ()
    sources: dict[str, Sources] = {}
    # More than a version can have would take too long to read.
    for locale, given in islice(draft.locales.items(), LOCALES_MAX):
        taken: dict[str, str] = {}
        missing: list[Flaw] = []
        if _size(given) <= bytes_max:
            closures = {part: closure(text, locale, library, inside) for part, text in given.items()}
            taken = {name: text for one in closures.values() for name, text in one.partials.items()}
            missing = [
                Flaw(words, locale, part, use.line) for part, one in closures.items() for use, words in one.faults
            ]
        sources[locale] = Sources(dict(given), taken, rights)
        found += missing
        found += [flaw for flaw in _content(locale, sources[locale], bytes_max) if not _follows(flaw, missing)]
    if not found and check is not None:
        found = list(_provider_flaws(sources, check))
    if found:
        return list(dict.fromkeys(found))
    read = {name for one in sources.values() for name in variables(one)}
    return Version(
        default_locale=draft.default_locale,
        sources=sources,
        rights=tuple(sorted(draft.rights)),
        variables=tuple(sorted(read)),
    )


def _provider_flaws(sources: Mapping[str, Sources], check: Check) -> Iterator[Flaw]:
    """What a provider would refuse every message of a draft for."""
    for locale, one in sources.items():
        for part, words in check({part: literal(text) for part, text in one.parts.items()}).items():
            yield Flaw(words, locale, part)


def freeze_or_defer(
    hurried: bool, draft: Draft, library: Mapping[str, Partial], bytes_max: int, check: Check | None
) -> Version | list[Flaw]:
    """As `freeze`; raises NeedsWorker if `hurried` and there is too much to read for the event loop."""
    texts = [part for given in draft.locales.values() for part in given.values()]
    partials = [text for one in library.values() for text in one.locales.values()]
    if sum(map(count_nodes, texts + partials)) > render_limits(on_event_loop=hurried).nodes_max:
        raise NeedsWorker
    return freeze(draft, library, bytes_max, check)


def _form(draft: Draft) -> Iterator[Flaw]:
    """Faults that are found without reading Liquid."""
    if not NAME.fullmatch(draft.name):
        yield Flaw(f"its name is not valid: {NAME_WORDS}")
    for right in sorted(draft.rights - RIGHTS):
        yield Flaw(f"there is no right {right}; there are {', '.join(sorted(RIGHTS))}")
    if not draft.locales:
        yield Flaw("has no locale")
    elif draft.default_locale not in draft.locales:
        yield Flaw(f"does not have its default locale {draft.default_locale}")
    if len(draft.locales) > LOCALES_MAX:
        yield Flaw(f"has {len(draft.locales)} locales, over {LOCALES_MAX}")
    for locale, given in draft.locales.items():
        if canonical(locale) != locale:
            yield Flaw(f"{locale} is not a locale in its stored form, such as de or pt-BR", locale)
        for part in given:
            if wrong := parts.unknown(draft.channel, part):
                yield Flaw(wrong, locale, part)
        for words in parts.missing(draft.channel, given):
            yield Flaw(f"needs {words}", locale)


def _size(texts: Mapping[str, str]) -> int:
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts.values())


def _follows(flaw: Flaw, missing: Sequence[Flaw]) -> bool:
    """Whether a flaw only repeats that a partial cannot be included."""
    inside = flaw.part.startswith(PARTIAL_PARTS)
    return any(inside or (flaw.part, flaw.line) == (one.part, one.line) for one in missing)


def _content(locale: str, sources: Sources, bytes_max: int) -> Iterator[Flaw]:
    """Faults of the content of a locale."""
    size = _size(sources.parts) + _size(sources.partials)
    if size > bytes_max:
        yield Flaw(f"has {size} bytes with all that it takes in, over {bytes_max}", locale)
        return
    for part, text in sources.parts.items():
        if "\0" in text:
            yield Flaw("has a NUL character", locale, part, text.count("\n", 0, text.index("\0")) + 1)
    for fault in faults(sources):
        yield Flaw(fault.words, locale, fault.part, fault.line)


def preview(
    hurried: bool, channel: str | None, sources: Sources, given: str | None, bounds: Bounds
) -> tuple[str, dict[str, str]]:
    """Return variables as a JSON object, samples if none are given, and the rendered parts in reading order.

    Raises TemplateError; if `hurried` also NeedsWorker.
    """
    renderer = Renderer(bounds, render_limits(on_event_loop=hurried))
    renderer.add(_PREVIEW, sources)
    renderer.require_event_loop(_PREVIEW)
    variables = msgspec.json.encode(samples(sources)).decode() if given is None else given
    rendered = renderer.render(_PREVIEW, variables)
    return variables, {part: rendered[part] for part in parts.in_order(channel, rendered)}

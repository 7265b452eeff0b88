"""Drafts: a template as somebody wrote it, and the version that it becomes, unless it has faults."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice

from msgspec import Struct

from dispatcher.base.errors import NeedsWorker
from dispatcher.base.values.locales import canonical
from dispatcher.base.values.names import NAME, NAME_WORDS
from dispatcher.liquid import parts
from dispatcher.liquid.language import count_nodes
from dispatcher.liquid.partials import Partial, closure
from dispatcher.liquid.render_limits import render_limits
from dispatcher.liquid.template import RAW_HTML, Sources, faults, variables

RIGHTS = frozenset({RAW_HTML})
# A version is one row: with full parts in each, this many locales are 16 MB of it at the default limit.
LOCALES_MAX = 64
# How faults call what is wrong inside of a partial.
PARTIAL_PARTS = "partials."


class Draft(Struct, frozen=True, kw_only=True):
    """A template that is to be saved. Without a channel it is a partial."""

    name: str
    channel: str | None
    default_locale: str
    # Liquid by part, by locale.
    locales: Mapping[str, Mapping[str, str]]
    rights: frozenset[str] = frozenset()

    def as_partial(self) -> Partial:
        """It as others take it in."""
        return Partial(self.default_locale, {locale: given.get("body", "") for locale, given in self.locales.items()})


class Version(Struct, frozen=True, kw_only=True):
    """What is saved of a draft: the same, with all that it takes in, and what it reads."""

    default_locale: str
    sources: Mapping[str, Sources]
    rights: tuple[str, ...]
    variables: tuple[str, ...]


class Flaw(Struct, frozen=True):
    """One thing that is wrong with a draft: in a part and line of a locale, or with all of it."""

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


def freeze(draft: Draft, library: Mapping[str, Partial], bytes_max: int) -> Version | list[Flaw]:
    """The version that a draft becomes with these partials, or everything that is wrong with it."""
    found = list(_form(draft))
    # By itself a partial renders nothing: what it may do is up to whoever takes it in.
    rights = RIGHTS if draft.channel is None else draft.rights
    inside = (draft.name,) if draft.channel is None else ()
    sources: dict[str, Sources] = {}
    # Reading more than a version can have takes longer than anybody waits.
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
    if found:
        return list(dict.fromkeys(found))
    read = {name for one in sources.values() for name in variables(one)}
    return Version(
        default_locale=draft.default_locale,
        sources=sources,
        rights=tuple(sorted(draft.rights)),
        variables=tuple(sorted(read)),
    )


def freeze_here(hurried: bool, draft: Draft, library: Mapping[str, Partial], bytes_max: int) -> Version | list[Flaw]:
    """The same; hurried it raises NeedsWorker where there is much to read."""
    texts = [part for given in draft.locales.values() for part in given.values()]
    partials = [text for one in library.values() for text in one.locales.values()]
    if sum(map(count_nodes, texts + partials)) > render_limits(on_event_loop=hurried).nodes_max:
        raise NeedsWorker
    return freeze(draft, library, bytes_max)


def _form(draft: Draft) -> Iterator[Flaw]:
    """What is wrong before any Liquid is read."""
    if not NAME.fullmatch(draft.name):
        yield Flaw(f"its name is none: {NAME_WORDS}")
    for right in sorted(draft.rights - RIGHTS):
        yield Flaw(f"there is no right {right}; there are {', '.join(sorted(RIGHTS))}")
    if not draft.locales:
        yield Flaw("says nothing")
    elif draft.default_locale not in draft.locales:
        yield Flaw(f"has no {draft.default_locale}, which is its default locale")
    if len(draft.locales) > LOCALES_MAX:
        yield Flaw(f"has {len(draft.locales)} locales, over {LOCALES_MAX}")
    for locale, given in draft.locales.items():
        if canonical(locale) != locale:
            yield Flaw(f"{locale} is no locale as it is kept, such as de or pt-BR", locale)
        for part in given:
            if wrong := parts.unknown(draft.channel, part):
                yield Flaw(wrong, locale, part)
        for words in parts.missing(draft.channel, given):
            yield Flaw(f"needs {words}", locale)


def _size(texts: Mapping[str, str]) -> int:
    return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts.values())


def _follows(flaw: Flaw, missing: Sequence[Flaw]) -> bool:
    """Whether a flaw only says again that a partial cannot be taken in."""
    inside = flaw.part.startswith(PARTIAL_PARTS)
    return any(inside or (flaw.part, flaw.line) == (one.part, one.line) for one in missing)


def _content(locale: str, sources: Sources, bytes_max: int) -> Iterator[Flaw]:
    """What is wrong with what a locale says."""
    size = _size(sources.parts) + _size(sources.partials)
    if size > bytes_max:
        yield Flaw(f"has {size} bytes with all that it takes in, over {bytes_max}", locale)
        return
    for part, text in sources.parts.items():
        if "\0" in text:
            yield Flaw("has a NUL character", locale, part, text.count("\n", 0, text.index("\0")) + 1)
    for fault in faults(sources):
        yield Flaw(fault.words, locale, fault.part, fault.line)

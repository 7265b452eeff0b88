"""Templates of a server."""

import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Raw

from dispatcher.api import template_models as models
from dispatcher.client.errors import NotFound, Refused
from dispatcher.client.transport import segment
from dispatcher.domain.drafts import Draft, Flaw, Version, freeze
from dispatcher.domain.template import Sources
from dispatcher.doors.kept import Shown, Sound, Tried, Written
from dispatcher.doors.nouns import Row, Whose
from dispatcher.doors.remote.calls import Calls, faults_of, rows
from dispatcher.errors import Fault, TemplateError, TemplateRefused
from dispatcher.store import drafting
from dispatcher.store.templates import Found, Published

_PATH = "/templates"
# As many as are looked through for a name that was meant.
NAMES_MAX = 10_000
# The server says what is too long there.
_ANY_SIZE = sys.maxsize
# Where the server finds a fault: in which template, and there perhaps in a part of a language.
_PLACE = re.compile(r"\$\.templates\[(\d+)\](?:\.locales\.(.+?)(?:\.parts\.([^.]+))?)?(?:\..*)?")
_LINE = re.compile(r"line (\d+): (.*)", re.DOTALL)


class _Preview(models.Preview, frozen=True, kw_only=True):
    """Its variables as they were written."""

    variables: Raw


class RemoteTemplates:
    """Has drafts read by the server under its own configuration, and once more here for what they take in."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def listed(self, whose: Whose, after: str, count: int) -> list[Row]:
        """Those after a name."""
        await self._require(whose)
        query = {"after": after or None}
        return rows(await self._calls.pages(_PATH, models.Templates, lambda page: page.templates, count, query))

    async def names(self, whose: Whose) -> list[str]:
        """The names of all."""
        return [row["name"] for row in await self.listed(whose, "", NAMES_MAX)]

    async def show(self, whose: Whose, name: str, number: int | None) -> Found | None:
        """A version."""
        await self._require(whose)
        found = await self._calls.find(f"{_PATH}/{segment(name)}", models.WholeTemplate, {"version": number})
        return None if found is None else _found(found)

    async def versions(self, whose: Whose, name: str, count: int) -> list[Row]:
        """The newest ones."""
        await self._require(whose)
        path = f"{_PATH}/{segment(name)}/versions"
        return rows(await self._calls.pages(path, models.TemplateVersions, lambda page: page.versions, count))

    async def compare(self, whose: Whose, drafts: Sequence[Draft], *, together: bool) -> list[Tried | list[Flaw]]:
        """What would become of each."""
        await self._require(whose)
        try:
            answer = await self._save(drafts, check=True)
        except Refused as refused:
            return list(_flaws(refused, len(drafts)))
        library = await drafting.library(self._published, drafts, together=together)
        stored = {row["name"]: row for row in await self.listed(whose, "", NAMES_MAX)}
        tried: list[Tried | list[Flaw]] = []
        for draft, one in zip(drafts, answer.templates, strict=True):
            version = freeze(draft, library, _ANY_SIZE)
            before: Mapping[str, Any] = stored.get(draft.name, {})
            tried.append(
                version
                if not isinstance(version, Version)
                else Tried(
                    version=version,
                    differs=one.created,
                    number=before.get("latest"),
                    published=before.get("published"),
                )
            )
        return tried

    async def _published(self, names: Sequence[str]) -> dict[str, Found]:
        newest = [found for name in names if (found := await self.show(Whose(), name, None)) is not None]
        meant = [(one.name, one.published) for one in newest if one.published is not None]
        versions = [await self.show(Whose(), name, number) for name, number in meant]
        return {one.name: one for one in versions if one is not None}

    async def put(self, whose: Whose, drafts: Sequence[Sound], _actor: str, *, publish: bool) -> list[Written]:
        """Save all of them, or none."""
        await self._require(whose)
        try:
            answer = await self._save([draft for draft, _ in drafts], publish=publish)
        except Refused as refused:
            raise TemplateRefused(faults_of(refused)) from refused
        return [Written(one.version or 0, one.created) for one in answer.templates]

    async def _save(self, drafts: Sequence[Draft], **said: bool) -> models.SavedTemplates:
        body = {"templates": [{"name": one.name} | _said(one) for one in drafts]} | said
        return await self._calls.post(_PATH, body, models.SavedTemplates)

    async def publish(self, whose: Whose, name: str, number: int | None, _actor: str) -> Published | None:
        """Publish a version."""
        await self._require(whose)
        path = f"{_PATH}/{segment(name)}/publish"
        try:
            done = await self._calls.post(path, {"version": number}, models.PublishedTemplate)
        except NotFound:
            return None
        return Published(0, done.published, done.before)

    async def preview(self, whose: Whose, which: Sound | Found, locale: str | None, variables: str | None) -> Shown:
        """Render one."""
        await self._require(whose)
        body: dict[str, Any] = {"locale": locale}
        if isinstance(which, Found):
            name, body["version"] = which.name, which.number
        else:
            name, body["draft"] = which[0].name, _said(which[0])
        if variables is not None:
            body["variables"] = Raw(variables.encode())
        try:
            shown = await self._calls.post(f"{_PATH}/{segment(name)}/preview", body, _Preview)
        except Refused as refused:
            raise _unrendered(refused) from refused
        return Shown(
            version=shown.version,
            locale=shown.locale,
            variables=bytes(shown.variables).decode(),
            made_up=shown.made_up,
            parts=shown.parts,
        )

    async def _require(self, whose: Whose) -> None:
        await self._calls.require(whose.tenant_id, whose.workspace_id)


def _said(draft: Draft) -> dict[str, Any]:
    return {
        "channel": draft.channel,
        "default_locale": draft.default_locale,
        "locales": {locale: {"parts": parts} for locale, parts in draft.locales.items()},
        "rights": sorted(draft.rights),
    }


def _found(whole: models.WholeTemplate) -> Found:
    rights = frozenset(whole.rights)
    return Found(
        name=whole.name,
        channel=whole.channel,
        latest=whole.latest,
        published=whole.published,
        id=0,
        number=whole.version,
        default_locale=whole.default_locale,
        rights=tuple(whole.rights),
        variables=tuple(whole.variables),
        sources={locale: Sources(one.parts, one.partials, rights) for locale, one in whole.locales.items()},
        author=whole.author,
        created_at=whole.created_at,
    )


def _flaws(refused: Refused, count: int) -> list[list[Flaw]]:
    """What the server has found, by draft; raises TemplateRefused where something is wrong with all of them."""
    flaws: list[list[Flaw]] = [[] for _ in range(count)]
    faults = faults_of(refused)
    for fault in faults:
        place = _PLACE.fullmatch(fault.path)
        if place is None or int(place[1]) >= count:
            raise TemplateRefused(faults) from refused
        flaws[int(place[1])].append(_flaw(fault, place[2] or "", place[3] or ""))
    return flaws


def _flaw(fault: Fault, locale: str, part: str) -> Flaw:
    at = _LINE.fullmatch(fault.message)
    return Flaw(fault.message, locale, part) if at is None else Flaw(at[2], locale, part, int(at[1]))


def _unrendered(refused: Refused) -> Exception:
    """Why it cannot be rendered, in the words of who renders."""
    if [fault.path for fault in refused.faults] != ["$.variables"]:
        return refused
    field, separator, reason = refused.faults[0].message.partition(": ")
    return TemplateError(field, reason) if separator else refused

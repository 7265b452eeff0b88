"""Stored templates: saving, publishing and finding versions, and loading what they say."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any

import asyncpg
import msgspec
from msgspec import Struct

from dispatcher.base.errors import Fault, TemplateRefused
from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.features.templates.models import WholeTemplate
from dispatcher.features.templates.rules import Draft, Version
from dispatcher.liquid.partials import Partial
from dispatcher.liquid.template import Sources

_SQL = statements(__name__)

LATEST = "latest"
PUBLISHED = "published"


class Saved(Struct, frozen=True):
    """What became of a draft: which version says it now, whether that is new, and whether it was published just now."""

    version_id: int
    number: int
    created: bool
    published: bool


class Published(Struct, frozen=True):
    """Which version is published now, and which was before."""

    version_id: int
    number: int
    number_before: int | None


class Found(WholeTemplate, frozen=True, kw_only=True):
    """One version of a template, as it is stored."""

    id: int

    @property
    def number(self) -> int:
        """Which version it is."""
        return self.version

    @property
    def sources(self) -> dict[str, Sources]:
        """What it says, by locale, as it is rendered."""
        rights = frozenset(self.rights)
        return {locale: Sources(one.parts, one.partials, rights) for locale, one in self.locales.items()}


async def put(
    database: Database, workspace: Workspace, drafts: Sequence[tuple[Draft, Version]], author: str, *, publish: bool
) -> list[Saved]:
    """Save drafts as versions, all or none; what is saved already makes no other version."""
    given = [_given(workspace, draft, version) for draft, version in drafts]
    try:
        rows = await database.fetch(_SQL["put"], msgspec.json.encode(given).decode(), publish, author)
    except asyncpg.CheckViolationError as refusal:
        # Somebody was quicker with a template of that name and another channel.
        raise TemplateRefused([Fault("template", str(refusal))]) from refusal
    return [Saved(row["version_id"], row["number"], row["created"], row["published"]) for row in rows]


def _given(workspace: Workspace, draft: Draft, version: Version) -> dict[str, object]:
    return {
        "tenant_id": workspace.tenant_id,
        "workspace_id": workspace.workspace_id,
        "name": draft.name,
        "channel": draft.channel,
        "default_locale": version.default_locale,
        "rights": version.rights,
        "variables": version.variables,
        "sources": {locale: {"parts": one.parts, "partials": one.partials} for locale, one in version.sources.items()},
    }


async def publish(
    database: Database, workspace: Workspace, name: str, number: int | None, actor: str
) -> Published | None:
    """Publish a version, the newest without a number; None where there is none."""
    rows = await database.fetch(_SQL["publish"], workspace.tenant_id, workspace.workspace_id, name, number, actor)
    return Published(*rows[0]) if rows else None


async def listed(
    database: Database, workspace: Workspace, after: str, count: int, *, channel: str | None = None
) -> list[dict[str, Any]]:
    """Templates in the order of their names, those after a name."""
    rows = await database.fetch(_SQL["list"], workspace.tenant_id, workspace.workspace_id, after, count, channel)
    return [dict(row) for row in rows]


async def names(database: Database, workspace: Workspace) -> list[str]:
    """The names of all."""
    rows = await database.fetch(_SQL["names"], workspace.tenant_id, workspace.workspace_id)
    return [row["name"] for row in rows]


async def history(database: Database, workspace: Workspace, name: str, count: int, below: int) -> list[dict[str, Any]]:
    """The newest versions of a template, those below a number."""
    rows = await database.fetch(_SQL["history"], workspace.tenant_id, workspace.workspace_id, name, count, below)
    return [dict(row) for row in rows]


async def find(database: Database, workspace: Workspace, asked: Sequence[str], which: str = LATEST) -> dict[str, Found]:
    """A version of each of these templates that has one: the latest, the published one, or that of a number."""
    rows = await database.fetch(_SQL["find"], workspace.tenant_id, workspace.workspace_id, list(asked), which)
    found = (dict(row) | {"locales": msgspec.json.decode(row["locales"])} for row in rows)
    return {row["name"]: msgspec.convert(row, Found) for row in found}


FindPublished = Callable[[Sequence[str]], Awaitable[Mapping[str, WholeTemplate]]]


def published(database: Database, workspace: Workspace) -> FindPublished:
    """What finds the published versions of a workspace by their names."""
    return partial(find, database, workspace, which=PUBLISHED)


async def partials(find_published: FindPublished, asked: Sequence[str]) -> dict[str, Partial]:
    """The published partials among these names, with all that they take in themselves."""
    found: dict[str, Partial] = {}
    missing = set(asked)
    while missing:
        versions = await find_published(sorted(missing))
        fresh = {name: one.draft.as_partial() for name, one in versions.items() if one.channel is None}
        found |= fresh
        locales = (locale for name in fresh for locale in versions[name].locales.values())
        missing = {name for one in locales for name in one.partials} - set(found) - missing
    return found


async def faults(database: Database, asked: Sequence[tuple[str, str, str, str]]) -> list[str | None]:
    """Why deliveries cannot have these templates: each by tenant, workspace, name and channel."""
    if not asked:
        return []
    rows = await database.fetch(_SQL["faults"], *(list(column) for column in zip(*asked, strict=True)))
    return [row[0] for row in rows]


async def load(database: Database, keys: Sequence[str]) -> dict[str, Sources]:
    """What stored versions say, by the keys that a claim has for them; those that do not exist are left out."""
    asked = [named for key in keys if (named := _named(key)) is not None]
    if not asked:
        return {}
    rows = await database.fetch(_SQL["load"], *(list(column) for column in zip(*asked, strict=True)))
    return {row["key"]: _sources(row) for row in rows}


def _named(key: str) -> tuple[str, int, str] | None:
    """Version and locale of a key; None of one that names none."""
    _, version, *locale = key.split(":", 2)
    return (key, int(version), locale[0]) if version else None


def _sources(row: Any) -> Sources:  # noqa: ANN401 - a record has no type of its own
    said: dict[str, dict[str, str]] = msgspec.json.decode(row["sources"])
    return Sources(said["parts"], said["partials"], frozenset(row["rights"]))

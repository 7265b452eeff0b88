"""Stored templates: saving, publishing and finding versions, and loading their content."""

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
from dispatcher.liquid.partials import Partial, partials_used
from dispatcher.liquid.template import Sources

_SQL = statements(__name__)

LATEST = "latest"
PUBLISHED = "published"


class Saved(Struct, frozen=True):
    """The result of saving a draft: the version that has its content, and whether it is new or newly published."""

    version_id: int
    number: int
    created: bool
    published: bool


class Found(WholeTemplate, frozen=True, kw_only=True):
    """A stored version of a template."""

    id: int

    @property
    def sources(self) -> dict[str, Sources]:
        """The content that is rendered, by locale."""
        rights = frozenset(self.rights)
        return {locale: Sources(one.parts, one.partials, rights) for locale, one in self.locales.items()}


async def put(
    database: Database, workspace: Workspace, drafts: Sequence[tuple[Draft, Version]], author: str, *, publish: bool
) -> list[Saved]:
    """Save drafts as versions, all or none; a draft that equals the newest version makes no other one."""
    given = [_put_row(workspace, draft, version) for draft, version in drafts]
    try:
        rows = await database.fetch(_SQL["put"], msgspec.json.encode(given).decode(), publish, author)
    except asyncpg.CheckViolationError as refusal:
        # Another transaction has saved a template of that name with another channel meanwhile.
        raise TemplateRefused([Fault("template", str(refusal))]) from refusal
    return [Saved(row["version_id"], row["number"], row["created"], row["published"]) for row in rows]


def _put_row(workspace: Workspace, draft: Draft, version: Version) -> dict[str, object]:
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
) -> dict[str, Any] | None:
    """Publish a version, the newest without a number; returns the change of versions, or None if it does not exist."""
    rows = await database.fetch(_SQL["publish"], workspace.tenant_id, workspace.workspace_id, name, number, actor)
    return dict(rows[0]) if rows else None


async def listed(
    database: Database, workspace: Workspace, after: str, count: int, *, channel: str | None = None
) -> list[dict[str, Any]]:
    """Return templates in the order of their names, after a name."""
    rows = await database.fetch(_SQL["list"], workspace.tenant_id, workspace.workspace_id, after, count, channel)
    return [dict(row) for row in rows]


async def names(database: Database, workspace: Workspace) -> list[str]:
    """Return the names of all templates of a workspace."""
    rows = await database.fetch(_SQL["names"], workspace.tenant_id, workspace.workspace_id)
    return [row["name"] for row in rows]


async def history(database: Database, workspace: Workspace, name: str, count: int, below: int) -> list[dict[str, Any]]:
    """Return versions of a template, newest first, below a number."""
    rows = await database.fetch(_SQL["history"], workspace.tenant_id, workspace.workspace_id, name, count, below)
    return [dict(row) for row in rows]


async def find(database: Database, workspace: Workspace, asked: Sequence[str], which: str = LATEST) -> dict[str, Found]:
    """Return versions of templates by their names: the latest, the published one, or the one with a number."""
    rows = await database.fetch(_SQL["find"], workspace.tenant_id, workspace.workspace_id, list(asked), which)
    found = (dict(row) | {"locales": msgspec.json.decode(row["locales"])} for row in rows)
    return {row["name"]: msgspec.convert(row, Found) for row in found}


FindPublished = Callable[[Sequence[str]], Awaitable[Mapping[str, WholeTemplate]]]


def published(database: Database, workspace: Workspace) -> FindPublished:
    """Return the function that finds published versions of a workspace by their names."""
    return partial(find, database, workspace, which=PUBLISHED)


async def partials(find_published: FindPublished, asked: Sequence[str]) -> dict[str, Partial]:
    """Return the published partials among these names, with all partials that they include."""
    found: dict[str, Partial] = {}
    missing = set(asked)
    while missing:
        versions = await find_published(sorted(missing))
        fresh = {name: one.draft.as_partial() for name, one in versions.items() if one.channel is None}
        found |= fresh
        locales = (locale for name in fresh for locale in versions[name].locales.values())
        missing = {name for one in locales for name in one.partials} - set(found) - missing
    return found


async def library(find_published: FindPublished, drafts: Sequence[Draft], *, own_partials: bool) -> dict[str, Partial]:
    """Return the partials that drafts include: the published ones, or first their own where `own_partials` is set."""
    texts = [part for draft in drafts for parts in draft.locales.values() for part in parts.values()]
    found = await partials(
        find_published, sorted({use.name for one in texts for use in partials_used(one) if use.name})
    )
    if own_partials:
        own = (draft for draft in drafts if draft.channel is None)
        found |= {draft.name: draft.as_partial() for draft in own if draft.default_locale in draft.locales}
    return found


async def faults(database: Database, asked: Sequence[tuple[str, str, str, str]]) -> list[str | None]:
    """Return why deliveries cannot have these templates, each by tenant, workspace, name and channel."""
    if not asked:
        return []
    rows = await database.fetch(_SQL["faults"], *(list(column) for column in zip(*asked, strict=True)))
    return [row[0] for row in rows]


async def load(database: Database, keys: Sequence[str]) -> dict[str, Sources]:
    """Return the content of stored versions by the keys of claims; those that do not exist are left out."""
    asked = [parts for key in keys if (parts := _key_parts(key)) is not None]
    if not asked:
        return {}
    rows = await database.fetch(_SQL["load"], *(list(column) for column in zip(*asked, strict=True)))
    return {row["key"]: _sources(row) for row in rows}


def _key_parts(key: str) -> tuple[str, int, str] | None:
    """The key with its version and locale; None if it names no version."""
    _, version, *locale = key.split(":", 2)
    return (key, int(version), locale[0]) if version else None


def _sources(row: Any) -> Sources:  # noqa: ANN401 - a record has no type of its own
    content: dict[str, dict[str, str]] = msgspec.json.decode(row["sources"])
    return Sources(content["parts"], content["partials"], frozenset(row["rights"]))


async def uses(database: Database, here: Workspace, name: str, count: int) -> list[tuple[str, str]]:
    """Return what sends a template, as kinds and names."""
    rows = await database.fetch(_SQL["uses"], here.tenant_id, here.workspace_id, name, count)
    return [(row["kind"], row["name"]) for row in rows]

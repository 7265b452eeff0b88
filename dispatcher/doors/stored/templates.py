"""Templates of a database."""

from collections.abc import Callable, Sequence

from dispatcher.config import Config
from dispatcher.domain.drafts import Draft, Flaw, Version, freeze
from dispatcher.domain.locales import nearest
from dispatcher.domain.previewing import Bounds, preview
from dispatcher.doors.kept import Shown, Sound, Tried, Written
from dispatcher.doors.nouns import Row, Whose
from dispatcher.store import drafting
from dispatcher.store import templates as store
from dispatcher.store.database import Database
from dispatcher.store.templates import LATEST, Found, Published


class StoredTemplates:
    """Reads drafts and renders them under our own configuration."""

    def __init__(self, database: Database, config: Callable[[], Config]) -> None:
        self._database = database
        self._config = config

    async def listed(self, whose: Whose, after: str, count: int) -> list[Row]:
        """Those after a name."""
        return await store.listed(self._database, whose.workspace, after, count)

    async def names(self, whose: Whose) -> list[str]:
        """The names of all."""
        return await store.names(self._database, whose.workspace)

    async def show(self, whose: Whose, name: str, number: int | None) -> Found | None:
        """A version."""
        which = LATEST if number is None else str(number)
        return (await store.find(self._database, whose.workspace, [name], which)).get(name)

    async def versions(self, whose: Whose, name: str, count: int) -> list[Row]:
        """The newest ones."""
        return await store.history(self._database, whose.workspace, name, count)

    async def compare(self, whose: Whose, drafts: Sequence[Draft], *, together: bool) -> list[Tried | list[Flaw]]:
        """What would become of each."""
        config, here = self._config(), whose.workspace
        library = await drafting.library(store.published(self._database, here), drafts, together=together)
        stored = await store.find(self._database, here, [draft.name for draft in drafts])
        tried: list[Tried | list[Flaw]] = []
        for draft in drafts:
            before = stored.get(draft.name)
            words = drafting.misplaced(draft, before, config.channels)
            flaws = [] if words is None else [Flaw(words)]
            version = freeze(draft, library, config.limits.template_bytes_max)
            if isinstance(version, Version) and not flaws:
                tried.append(_tried(version, before))
            else:
                tried.append(flaws + ([] if isinstance(version, Version) else version))
        return tried

    async def put(self, whose: Whose, drafts: Sequence[Sound], actor: str, *, publish: bool) -> list[Written]:
        """Save all of them, or none."""
        pairs = [(draft, tried.version) for draft, tried in drafts]
        saved = await store.put(self._database, whose.workspace, pairs, actor, publish=publish)
        return [Written(one.number, one.created) for one in saved]

    async def publish(self, whose: Whose, name: str, number: int | None, actor: str) -> Published | None:
        """Publish a version."""
        return await store.publish(self._database, whose.workspace, name, number, actor)

    async def preview(self, _whose: Whose, which: Sound | Found, locale: str | None, variables: str | None) -> Shown:
        """Render one."""
        limits = self._config().limits
        bounds = Bounds(limits.template_bytes_max, limits.variables_bytes_max, limits.rendered_bytes_max)
        if isinstance(which, Found):
            draft, number, sources = which.draft, which.number, which.sources
        else:
            draft, number, sources = which[0], None, dict(which[1].version.sources)
        near = nearest(locale, sources, draft.default_locale)
        text, parts = preview(False, draft.channel, sources[near], variables, bounds)
        return Shown(version=number, locale=near, variables=text, made_up=variables is None, parts=parts)


def _tried(version: Version, before: Found | None) -> Tried:
    return Tried(
        version=version,
        differs=before is None or not drafting.same(version, before),
        number=None if before is None else before.number,
        published=None if before is None else before.published,
    )

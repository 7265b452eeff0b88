"""Templates as tests save them: drafts made into versions by the domain, and put by the store."""

from collections.abc import Mapping

from dispatcher.base.workspace import Workspace
from dispatcher.db.database import Database
from dispatcher.features.templates import store as templates
from dispatcher.features.templates.rules import Draft, Version, freeze
from dispatcher.features.templates.store import Saved

BYTES_MAX = 256 * 1024
HERE = Workspace()


def draft(
    name: str = "welcome",
    channel: str | None = "sms",
    default_locale: str = "default",
    locales: Mapping[str, Mapping[str, str]] | None = None,
    body: str = "Hello {{ name }}",
) -> Draft:
    """A template that has no faults."""
    said = {default_locale: {"body": body}} if locales is None else locales
    return Draft(name=name, channel=channel, default_locale=default_locale, locales=said)


async def version(database: Database, one: Draft, workspace: Workspace = HERE) -> Version:
    """The version that it becomes with the partials that are published."""
    names = [name for texts in one.locales.values() for text in texts.values() for name in _quoted(text)]
    frozen = freeze(one, await templates.partials(templates.published(database, workspace), names), BYTES_MAX)
    assert isinstance(frozen, Version), frozen
    return frozen


def _quoted(text: str) -> list[str]:
    return text.split("'")[1::2]


async def save(database: Database, one: Draft, *, publish: bool = True, workspace: Workspace = HERE) -> Saved:
    """Save one, and publish it."""
    frozen = await version(database, one, workspace)
    (saved,) = await templates.put(database, workspace, [(one, frozen)], "ann", publish=publish)
    return saved

"""The `templates preview` command: a template as it would be sent, with variables that are given or made up."""

from pathlib import Path
from typing import Annotated

import msgspec
import typer
from msgspec import Struct

from dispatcher.cli.given import object_text
from dispatcher.cli.session import Session
from dispatcher.cli.template_file import SUFFIX, read
from dispatcher.cli.template_work import InWorkspace, Number, Tenant, freeze_all, place, require
from dispatcher.cli.voice import plain
from dispatcher.domain.locales import nearest
from dispatcher.domain.previewing import Bounds, made_up
from dispatcher.domain.previewing import preview as rendered
from dispatcher.domain.template import Sources
from dispatcher.store.database import Database
from dispatcher.store.templates import Workspace


class Chosen(Struct, frozen=True):
    """What is previewed: one locale of a version or of a file."""

    name: str
    channel: str | None
    version: int | None
    locale: str
    sources: Sources


def preview(  # noqa: PLR0913 - each is an option of the command line
    session: Session,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Which stored template.")] = None,
    *,
    file: Annotated[Path | None, typer.Option(help="A file that is not saved yet, in place of NAME.")] = None,
    version: Number = None,
    locale: Annotated[str | None, typer.Option(help="For whom; the one that comes nearest is taken.")] = None,
    variables: Annotated[
        str | None,
        typer.Option(metavar="FILE|JSON", help="Variables, as an object; - is the standard input. Made up without it."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the html part there, for a browser.")
    ] = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Render a template, and write nothing into the database.

    Variables that are made up fit to how the template uses them; with given ones a missing one is an error.
    """
    here = place(tenant, workspace).workspace
    if (name is None) == (file is None):
        raise typer.BadParameter("name a stored template, or a file with --file", param_hint="NAME")
    if file is not None and version is not None:
        raise typer.BadParameter("goes with NAME", param_hint="--version")
    given = None if variables is None else object_text("--variables", variables)
    with session.database() as database:
        chosen = _chosen(session, database, here, name, file, version, locale)
    text = made_up(chosen.sources) if given is None else given
    said = _render(session, chosen, text)
    if html is not None:
        _write(html, said)
    _say(session, chosen, text, said, guessed=given is None)


def _chosen(
    session: Session,
    database: Database,
    here: Workspace,
    name: str | None,
    file: Path | None,
    version: int | None,
    locale: str | None,
) -> Chosen:
    if file is not None:
        written = read(file, str(file), file.name.removesuffix(SUFFIX))
        ((_, frozen),) = freeze_all(session, database, here, [written])
        draft, sources, number = written.draft, frozen.sources, None
    else:
        found = require(session, database, here, name or "", version)
        draft, sources, number = found.draft, found.sources, found.number
    near = nearest(locale, sources, draft.default_locale)
    return Chosen(draft.name, draft.channel, number, near, sources[near])


def _render(session: Session, chosen: Chosen, variables: str) -> dict[str, str]:
    limits = session.config.limits
    bounds = Bounds(limits.template_bytes_max, limits.variables_bytes_max, limits.rendered_bytes_max)
    return rendered(chosen.channel, chosen.sources, variables, bounds)


def _write(path: Path, said: dict[str, str]) -> None:
    if "html" not in said:
        raise typer.BadParameter("it has no html part", param_hint="--html")
    try:
        path.write_text(said["html"], encoding="utf-8")
    except OSError as fault:
        words = f"{path} cannot be written: {fault.strerror or type(fault).__name__}"
        raise typer.BadParameter(words, param_hint="--html") from fault


def _say(session: Session, chosen: Chosen, variables: str, said: dict[str, str], *, guessed: bool) -> None:
    if session.voice.as_json:
        session.voice.record(
            {
                "name": chosen.name,
                "version": chosen.version,
                "locale": chosen.locale,
                "variables": msgspec.Raw(variables.encode()),
                "made_up": guessed,
                "parts": said,
            }
        )
        return
    what = "a file" if chosen.version is None else f"version {chosen.version}"
    session.voice.say(plain(f"{chosen.name}, {what}, {chosen.locale}{'; made up: ' + variables if guessed else ''}"))
    for part, text in said.items():
        session.voice.content(f"--- {part} ---\n{text}")

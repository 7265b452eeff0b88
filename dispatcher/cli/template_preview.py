"""The `templates preview` command: a template as it would be sent, with variables that are given or made up."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from dispatcher.cli.given import object_text
from dispatcher.cli.session import Session
from dispatcher.cli.template_file import SUFFIX, read
from dispatcher.cli.template_work import InWorkspace, Number, Tenant, compare_all, place, require
from dispatcher.cli.voice import plain
from dispatcher.doors.kept import Shown, Sound, Templates
from dispatcher.doors.nouns import Whose
from dispatcher.store.templates import Found


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
    here = place(tenant, workspace)
    if (name is None) == (file is None):
        raise typer.BadParameter("name a stored template, or a file with --file", param_hint="NAME")
    if file is not None and version is not None:
        raise typer.BadParameter("goes with NAME", param_hint="--version")
    given = None if variables is None else object_text("--variables", variables)
    with session.doors() as doors:
        called, which = _chosen(session, doors.templates, here, name, file, version)
        shown = session.run(lambda: doors.templates.preview(here, which, locale, given))
    if html is not None:
        _write(html, shown.parts)
    _say(session, called, shown)


def _chosen(
    session: Session, templates: Templates, here: Whose, name: str | None, file: Path | None, version: int | None
) -> tuple[str, Sound | Found]:
    """What is previewed, and how it is called."""
    if file is None:
        found = require(session, templates, here, name or "", version)
        return found.name, found
    written = read(file, str(file), file.name.removesuffix(SUFFIX))
    ((_, tried),) = compare_all(session, templates, here, [written])
    return written.draft.name, (written.draft, tried)


def _write(path: Path, said: Mapping[str, str]) -> None:
    if "html" not in said:
        raise typer.BadParameter("it has no html part", param_hint="--html")
    try:
        path.write_text(said["html"], encoding="utf-8")
    except OSError as fault:
        words = f"{path} cannot be written: {fault.strerror or type(fault).__name__}"
        raise typer.BadParameter(words, param_hint="--html") from fault


def _say(session: Session, name: str, shown: Shown) -> None:
    if session.voice.as_json:
        session.voice.record(
            {
                "name": name,
                "version": shown.version,
                "locale": shown.locale,
                "variables": msgspec.Raw(shown.variables.encode()),
                "made_up": shown.made_up,
                "parts": shown.parts,
            }
        )
        return
    what = "a file" if shown.version is None else f"version {shown.version}"
    made_up = f"; made up: {shown.variables}" if shown.made_up else ""
    session.voice.say(plain(f"{name}, {what}, {shown.locale}{made_up}"))
    for part, text in shown.parts.items():
        session.voice.content(f"--- {part} ---\n{text}")

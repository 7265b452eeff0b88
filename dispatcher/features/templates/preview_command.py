"""The `templates preview` command: a template as it would be sent, with variables that are given or made up."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Raw

from dispatcher.base.errors import TemplateError
from dispatcher.cli.arguments import object_text
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import Version
from dispatcher.cli.terminal.console import plain
from dispatcher.features.templates import endpoints
from dispatcher.features.templates.drafts import body_of, save
from dispatcher.features.templates.files import SUFFIX, read
from dispatcher.features.templates.models import Preview
from dispatcher.http.problems import Problem


def preview(
    caller: Caller,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="Which stored template.")] = None,
    *,
    file: Annotated[Path | None, typer.Option(help="A file that is not saved yet, in place of NAME.")] = None,
    version: Version = None,
    locale: Annotated[str | None, typer.Option(help="For whom; the one that comes nearest is taken.")] = None,
    variables: Annotated[
        str | None,
        typer.Option(metavar="FILE|JSON", help="Variables, as an object; - is the standard input. Made up without it."),
    ] = None,
    html: Annotated[
        Path | None, typer.Option("--html", metavar="FILE", help="Write the html part there, for a browser.")
    ] = None,
) -> None:
    """Render a template, and write nothing into the database.

    Variables that are made up fit to how the template uses them; with given ones a missing one is an error.
    """
    if (name is None) == (file is None):
        raise typer.BadParameter("name a stored template, or a file with --file", param_hint="NAME")
    if file is not None and version is not None:
        raise typer.BadParameter("goes with NAME", param_hint="--version")
    given = None if variables is None else Raw(object_text("--variables", variables).encode())
    body: dict[str, object] = {"version": version, "locale": locale, "variables": given}
    if file is not None:
        written = read(file, str(file), file.name.removesuffix(SUFFIX))
        save(caller, [written], check=True)
        name, body["draft"] = written.draft.name, body_of(written.draft)
    shown = _rendered(caller, name or "", body)
    if html is not None:
        _write(html, shown.parts)
    _say(caller, shown)


def _rendered(caller: Caller, name: str, body: Mapping[str, object]) -> Preview:
    try:
        with caller.hinted(endpoints.list_templates, name):
            shown: Preview = caller.ask(endpoints.preview_template, name, body=body)
    except Problem as problem:
        if [fault.path for fault in problem.faults] != ["$.variables"]:
            raise
        field, _, reason = problem.faults[0].message.partition(": ")
        raise TemplateError(field, reason) from problem
    return shown


def _write(path: Path, said: Mapping[str, str]) -> None:
    if "html" not in said:
        raise typer.BadParameter("it has no html part", param_hint="--html")
    try:
        path.write_text(said["html"], encoding="utf-8")
    except OSError as fault:
        words = f"{path} cannot be written: {fault.strerror or type(fault).__name__}"
        raise typer.BadParameter(words, param_hint="--html") from fault


def _say(caller: Caller, shown: Preview) -> None:
    if caller.output.as_json:
        caller.output.record(shown)
        return
    what = "a file" if shown.version is None else f"version {shown.version}"
    made_up = f"; made up: {bytes(shown.variables).decode()}" if shown.made_up else ""
    caller.output.info(plain(f"{shown.name}, {what}, {shown.locale}{made_up}"))
    for part, text in shown.parts.items():
        caller.output.content(f"--- {part} ---\n{text}")

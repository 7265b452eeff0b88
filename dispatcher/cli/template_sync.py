"""The `templates sync` command: a folder of template files made what is stored, or compared with it."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from dispatcher.cli.failures import FAILED
from dispatcher.cli.operating import Actor, who
from dispatcher.cli.session import Session
from dispatcher.cli.template_file import SUFFIX, Written, read
from dispatcher.cli.template_work import (
    InWorkspace,
    Tenant,
    compare_all,
    difference,
    place,
    readable,
)
from dispatcher.cli.voice import plain
from dispatcher.doors.kept import Templates, Tried
from dispatcher.doors.nouns import Whose
from dispatcher.errors import Fault, TemplateRefused
from dispatcher.store.templates import Found

# One statement saves them all: more than this is not kept by hand.
FILES_MAX = 5_000


class Compared(Struct, frozen=True):
    """A file beside what is stored under its name."""

    file: Written
    tried: Tried

    def waits(self, publish: bool) -> bool:
        """Whether publishing is asked for and would change anything."""
        one = self.tried
        return publish and (one.differs or one.number is None or one.published != one.number)

    def diff(self, stored: Found | None) -> str:
        """What differs, as a unified diff."""
        name = self.file.draft.name
        old = "" if stored is None else readable(stored.draft, stored.sources)
        label = f"{name} (not stored)" if stored is None else f"{name} version {stored.number}"
        return difference(old, readable(self.file.draft, self.tried.version.sources), label, self.file.path)


def sync(
    session: Session,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help=f"Its files *{SUFFIX}, one a template.")],
    *,
    check: Annotated[bool, typer.Option("--check", help="Only show what differs; then the exit code is 1.")] = False,
    publish: Annotated[bool, typer.Option("--publish", help="Publish what is saved, too.")] = False,
    actor: Actor = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Save every template of a folder, or nothing where any of them has a fault.

    What is stored and not in the folder is named and left alone.
    """
    by, here = who(session, actor), place(tenant, workspace)
    files, faults = _files(folder)
    with session.doors() as doors:
        templates = doors.templates
        compared = [Compared(*one) for one in compare_all(session, templates, here, files, faults, together=True)]
        names = session.run(lambda: templates.names(here))
        others = sorted(set(names) - {file.draft.name for file in files})
        if check:
            _show(session, templates, here, compared, others, publish)
            return
        pairs = [(one.file.draft, one.tried) for one in compared]
        saved = session.run(lambda: templates.put(here, pairs, by, publish=publish))
    _tell(session, compared, [one.number for one in saved], others, publish)


def _files(folder: Path) -> tuple[list[Written], list[Fault]]:
    """Every template of the folder that can be read, and the faults of the others."""
    paths = sorted(path for path in folder.rglob(f"*{SUFFIX}") if path.is_file())
    if not paths:
        raise typer.BadParameter(f"{plain(folder)} has no file *{SUFFIX}", param_hint="FOLDER")
    if len(paths) > FILES_MAX:
        raise typer.BadParameter(f"{plain(folder)} has {len(paths)} files, over {FILES_MAX}", param_hint="FOLDER")
    files: list[Written] = []
    faults: list[Fault] = []
    for path in paths:
        shown = path.relative_to(folder).as_posix()
        try:
            files.append(read(path, shown, shown.removesuffix(SUFFIX)))
        except TemplateRefused as refused:
            faults += refused.faults
    first: dict[str, str] = {}
    for file in files:
        other = first.setdefault(file.draft.name, file.path)
        if other != file.path:
            faults.append(Fault(f"{file.path}:1", f"{other} is called {file.draft.name}, too"))
    return files, faults


def _show(
    session: Session,
    templates: Templates,
    here: Whose,
    compared: Sequence[Compared],
    others: Sequence[str],
    publish: bool,
) -> None:
    """What a sync would change, and the exit code that says so."""
    differing = [one for one in compared if one.tried.differs or one.waits(publish)]
    for one in differing:
        name, number, diff = one.file.draft.name, one.tried.number, ""
        if one.tried.differs:
            diff = one.diff(None if number is None else session.run(partial(templates.show, here, name, number)))
        if session.voice.as_json:
            session.voice.record({"name": name, "file": one.file.path, "stored": number is not None, "diff": diff})
        elif diff:
            session.voice.content(diff)
        elif number is not None:
            session.voice.text(plain(f"{name}: version {number} is not published"))
    _name_others(session, others)
    if differing:
        session.voice.say(f"{len(differing)} of {len(compared)} differ")
        raise typer.Exit(FAILED)
    if not session.voice.as_json:
        session.voice.text(f"all {len(compared)} are stored as they are here")


def _tell(
    session: Session, compared: Sequence[Compared], numbers: Sequence[int], others: Sequence[str], publish: bool
) -> None:
    """What became of each."""
    for one, number in zip(compared, numbers, strict=True):
        name = one.file.draft.name
        if session.voice.as_json:
            session.voice.record(
                {
                    "name": name,
                    "file": one.file.path,
                    "version": number,
                    "changed": one.tried.differs,
                    "published": one.waits(publish),
                }
            )
        elif one.tried.differs or one.waits(publish):
            done = [
                words for words, is_so in (("saved", one.tried.differs), ("published", one.waits(publish))) if is_so
            ]
            session.voice.text(plain(f"template {name}: version {number} is {' and '.join(done)}"))
    _name_others(session, others)
    changed = sum(one.tried.differs for one in compared)
    session.voice.say(f"{len(compared)} templates, {changed} of them changed")


def _name_others(session: Session, others: Sequence[str]) -> None:
    if others:
        session.voice.say(plain(f"stored, and not in the folder: {', '.join(others)}"))

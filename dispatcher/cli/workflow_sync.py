"""The `workflows sync` command: a folder of definitions made what is stored, or compared with it."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer
from msgspec import Struct

from dispatcher.cli.failures import FAILED
from dispatcher.cli.operating import Actor, who
from dispatcher.cli.session import Session
from dispatcher.cli.template_work import InWorkspace, Tenant, place
from dispatcher.cli.voice import plain
from dispatcher.cli.workflow_file import FILES_MAX, SUFFIXES, SUFFIXES_SHOWN, Written, compare, read_all
from dispatcher.domain.plans.difference import Change, difference
from dispatcher.doors.nouns import Stored
from dispatcher.store.workflows import Saved


class Pair(Struct, frozen=True):
    """A file beside what is stored under its name."""

    file: Written

    @property
    def stored(self) -> Stored | None:
        """What is stored."""
        return self.file.compared.stored

    @property
    def differs(self) -> bool:
        """Whether what is stored says something else, or there is nothing."""
        return not self.file.compared.same

    def waits(self, activate: bool) -> bool:
        """Whether activating is asked for and would change anything."""
        return activate and (self.stored is None or not self.stored.active)

    def changes(self) -> list[Change]:
        """What differs in the definition; its plan differs too where a function that it calls does."""
        return [] if self.stored is None else difference(self.stored.definition, self.file.definition)

    def words(self, activate: bool) -> list[str]:
        """What a sync would change, in lines."""
        if self.stored is None:
            return [f"{self.file.name}: is not stored ({self.file.path})"]
        lines = [f"{self.file.name}: {change}" for change in self.changes()]
        if self.differs and not lines:
            lines = [f"{self.file.name}: says the same, and means another plan since it was saved"]
        return [*lines, *([f"{self.file.name}: is not active"] if self.waits(activate) else [])]


def sync(
    session: Session,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help=f"Its files {SUFFIXES_SHOWN}, one a workflow.")],
    *,
    check: Annotated[bool, typer.Option("--check", help="Only show what differs; then the exit code is 1.")] = False,
    activate: Annotated[bool, typer.Option("--activate", help="Let all of them take triggers, too.")] = False,
    actor: Actor = None,
    tenant: Tenant = None,
    workspace: InWorkspace = None,
) -> None:
    """Save every workflow of a folder, or nothing where any of them has a fault.

    What is stored and not in the folder is named and left alone.
    """
    by, here = who(session, actor), place(tenant, workspace)
    read = read_all(_paths(folder))
    with session.doors() as doors:
        files = compare(session, doors, here, read)
        definitions = [file.definition for file in files]
        names = session.run(lambda: doors.workflows.names(here))
        saved = {} if check else session.run(lambda: doors.workflows.put(here, definitions, by, activate=activate))
    pairs = [Pair(file) for file in files]
    others = sorted(set(names) - {file.name for file in files})
    if others:
        session.voice.say(plain(f"stored, and not in the folder: {', '.join(others)}"))
    if check:
        _show(session, pairs, activate)
    else:
        _tell(session, pairs, saved, activate)


def _paths(folder: Path) -> list[tuple[Path, str]]:
    paths = sorted(path for path in folder.rglob("*") if path.suffix in SUFFIXES and path.is_file())
    if not paths:
        raise typer.BadParameter(f"{plain(folder)} has no file {SUFFIXES_SHOWN}", param_hint="FOLDER")
    if len(paths) > FILES_MAX:
        raise typer.BadParameter(f"{plain(folder)} has {len(paths)} files, over {FILES_MAX}", param_hint="FOLDER")
    return [(path, path.relative_to(folder).as_posix()) for path in paths]


def _show(session: Session, pairs: Sequence[Pair], activate: bool) -> None:
    """What a sync would change, and the exit code that says so."""
    differing = [one for one in pairs if one.differs or one.waits(activate)]
    for one in differing:
        if session.voice.as_json:
            session.voice.record(
                {
                    "name": one.file.name,
                    "file": one.file.path,
                    "stored": one.stored is not None,
                    "differs": one.differs,
                    "activates": one.waits(activate),
                    "changes": one.changes(),
                }
            )
        else:
            session.voice.content("\n".join(one.words(activate)))
    if differing:
        session.voice.say(f"{len(differing)} of {len(pairs)} differ")
        raise typer.Exit(FAILED)
    if not session.voice.as_json:
        session.voice.text(f"all {len(pairs)} are stored as they are here")


def _tell(session: Session, pairs: Sequence[Pair], saved: Mapping[str, Saved], activate: bool) -> None:
    """What became of each."""
    for one in pairs:
        name, done = one.file.name, saved[one.file.name]
        if session.voice.as_json:
            session.voice.record(
                {
                    "name": name,
                    "file": one.file.path,
                    "version": done.number,
                    "changed": one.differs,
                    "activated": one.waits(activate),
                    "active": done.active,
                }
            )
        elif one.differs or one.waits(activate):
            words = [w for w, is_so in (("saved", one.differs), ("active", one.waits(activate))) if is_so]
            session.voice.text(plain(f"workflow {name}: version {done.number} is {' and '.join(words)}"))
    session.voice.say(f"{len(pairs)} workflows, {sum(one.differs for one in pairs)} of them changed")

"""What the commands about workflows share: finding a version, and saying what there is where there is none."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, NoReturn

import typer

from dispatcher.cli.failures import FAILED
from dispatcher.cli.operating import require_words
from dispatcher.cli.session import Session
from dispatcher.doors.doors import Doors
from dispatcher.doors.nouns import Version, Whose
from dispatcher.errors import TriggerRefused, did_you_mean


def _sound(name: str) -> str:
    require_words("WORKFLOW", name)
    return name


Workflow = Annotated[str, typer.Argument(metavar="WORKFLOW", callback=_sound)]


def require(session: Session, doors: Doors, whose: Whose, name: str, number: int | None = None) -> Version:
    """A version that is there."""
    found = session.run(lambda: doors.workflows.show(whose, name, number))
    if found is None:
        missing(session, doors, whose, name, number)
    return found


def missing(session: Session, doors: Doors, whose: Whose, name: str, number: int | None = None) -> NoReturn:
    """Say what there is instead, and end."""
    found = session.run(lambda: doors.workflows.show(whose, name, None))
    if found is not None:
        session.voice.fail("NotFound", f"workflow {name} has no version {number}; its newest is {found.latest}")
    else:
        names = session.run(lambda: doors.workflows.names(whose))
        session.voice.fail("NotFound", f"there is no workflow {name}{did_you_mean(name, names)}")
    raise typer.Exit(FAILED)


@contextmanager
def naming(session: Session, doors: Doors, whose: Whose, name: str) -> Iterator[None]:
    """Where a trigger is refused because there is no workflow of that name, say which one may be meant."""
    try:
        yield
    except TriggerRefused as refused:
        names = session.run(lambda: doors.workflows.names(whose))
        hint = "" if name in names else did_you_mean(name, names)
        if not hint:
            raise
        raise TriggerRefused(refused.faults, f"{refused.message}{hint}") from refused

"""What the `templates` commands share: drafts made into versions, and two versions told apart."""

from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import Annotated, NoReturn

import typer

from dispatcher.cli.failures import FAILED
from dispatcher.cli.operating import UNNAMED, require_words
from dispatcher.cli.session import Session
from dispatcher.cli.template_file import Written, text
from dispatcher.domain.drafts import Draft
from dispatcher.domain.template import Sources
from dispatcher.doors.kept import Templates, Tried
from dispatcher.doors.nouns import Whose
from dispatcher.errors import Fault, TemplateRefused, did_you_mean
from dispatcher.store import drafting
from dispatcher.store.templates import NUMBER_MAX, Found

WORKSPACE_MAX = 100

Tenant = Annotated[str | None, typer.Option(help=f"Whose they are; {UNNAMED}.")]
InWorkspace = Annotated[str | None, typer.Option("--workspace", help=f"In which workspace of theirs; {UNNAMED}.")]


def _sound(name: str) -> str:
    require_words("NAME", name)
    return name


Name = Annotated[str, typer.Argument(metavar="NAME", callback=_sound)]
Number = Annotated[int | None, typer.Option("--version", min=1, max=NUMBER_MAX, help="Which; the newest without it.")]


def place(tenant: str | None, workspace: str | None) -> Whose:
    """The workspace that the options name."""
    for option, given in (("--tenant", tenant), ("--workspace", workspace)):
        if given is not None:
            require_words(option, given)
            if len(given) > WORKSPACE_MAX:
                raise typer.BadParameter(f"is longer than {WORKSPACE_MAX} characters", param_hint=option)
    return Whose(tenant, workspace)


def compare_all(
    session: Session,
    templates: Templates,
    whose: Whose,
    files: Sequence[Written],
    faults: Sequence[Fault] = (),
    *,
    together: bool = False,
) -> list[tuple[Written, Tried]]:
    """What would become of these files. TemplateRefused names every fault of every one, and those that are given.

    They take in what is published; a folder, whose files belong together, takes in its own partials first.
    """
    drafts = [file.draft for file in files]
    tried = session.run(lambda: templates.compare(whose, drafts, together=together)) if drafts else []
    found = list(faults)
    sound: list[tuple[Written, Tried]] = []
    for file, one in zip(files, tried, strict=True):
        if isinstance(one, Tried):
            sound.append((file, one))
        else:
            found += map(file.fault, one)
    if found:
        raise TemplateRefused(found)
    return sound


def require(session: Session, templates: Templates, whose: Whose, name: str, number: int | None) -> Found:
    """A version that is there."""
    found = session.run(lambda: templates.show(whose, name, number))
    if found is None:
        missing(session, templates, whose, name, number)
    return found


def missing(session: Session, templates: Templates, whose: Whose, name: str, number: int | None) -> NoReturn:
    """Say what there is instead, and end."""
    found = session.run(lambda: templates.show(whose, name, None))
    if found is not None:
        session.voice.fail("NotFound", f"template {name} has no version {number}; its newest is {found.latest}")
    else:
        names = session.run(lambda: templates.names(whose))
        session.voice.fail("NotFound", f"there is no template {name}{did_you_mean(name, names)}")
    raise typer.Exit(FAILED)


def readable(draft: Draft, sources: Mapping[str, Sources]) -> str:
    """A version as a text in which everything stands that can differ."""
    lines = [text(draft)]
    for locale, (_, partials) in sorted(drafting.whole(sources).items()):
        for name, said in sorted(partials.items()):
            lines.append(f"--- takes in {name} ({locale}) ---\n{said}\n")
    return "".join(lines)


def difference(old: str, new: str, old_name: str, new_name: str) -> str:
    """A unified diff; empty where they are alike."""
    lines = unified_diff(old.splitlines(), new.splitlines(), old_name, new_name, lineterm="")
    return "\n".join(lines)

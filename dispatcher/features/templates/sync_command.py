"""The `templates sync` command: saves a folder of template files, or compares it with what is stored."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import typer

from dispatcher.base.errors import Fault, TemplateRefused
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.folders import Compared, paths_of, same_names, show_differences, show_others, show_saved
from dispatcher.features.templates.drafts import difference, find, library, readable, readable_version, save
from dispatcher.features.templates.files import SUFFIX, TemplateFile, read
from dispatcher.features.templates.models import SavedTemplate
from dispatcher.features.templates.rules import Draft

# One statement saves them all.
FILES_MAX = 5_000


def sync(
    caller: Caller,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help=f"Its files *{SUFFIX}, one a template.")],
    *,
    check: Annotated[bool, typer.Option("--check", help="Only show what differs; then the exit code is 1.")] = False,
    publish: Annotated[bool, typer.Option("--publish", help="Publish what is saved, too.")] = False,
) -> None:
    """Save every template of a folder, or none if any has a fault.

    Stored templates that are not in the folder are listed and left alone.
    """
    files, faults = _files(folder)
    checked = save(caller, files, faults, check=True)
    compared = [_compared(file, one, publish) for file, one in zip(files, checked.templates, strict=True)]
    show_others(caller, checked.others)
    if check:
        _check(caller, {file.draft.name: file.draft for file in files}, compared)
        return
    saved = save(caller, files, publish=publish).templates
    shown = [(one, done.version or 0, {"published": one.waits}) for one, done in zip(compared, saved, strict=True)]
    show_saved(caller, "template", "published", shown)


def _files(folder: Path) -> tuple[list[TemplateFile], list[Fault]]:
    """Every template of the folder that can be read, and the faults of the others."""
    files: list[TemplateFile] = []
    faults: list[Fault] = []
    for path, shown in paths_of(folder, (SUFFIX,), FILES_MAX):
        try:
            files.append(read(path, shown, shown.removesuffix(SUFFIX)))
        except TemplateRefused as refused:
            faults += refused.faults
    again = dict(same_names((file.draft.name, file.path) for file in files))
    faults += (Fault(f"{path}:1", words) for path, words in again.items())
    return [file for file in files if file.path not in again], faults


def _compared(file: TemplateFile, one: SavedTemplate, publish: bool) -> Compared:
    waits = publish and (one.created or one.published != one.version)
    return Compared(file.draft.name, file.path, one.created, waits)


def _check(caller: Caller, drafts: Mapping[str, Draft], compared: Sequence[Compared]) -> None:
    differ = any(one.differs for one in compared)
    partials = library(caller, list(drafts.values()), own_partials=True) if differ else {}

    def shown(one: Compared) -> tuple[Mapping[str, object], str]:
        stored = find(caller, one.name)
        old = "" if stored is None else readable_version(stored)
        label = "(not stored)" if stored is None else f"version {stored.version}"
        new = readable(drafts[one.name], partials) if one.differs else old
        diff = difference(old, new, f"{one.name} {label}", one.path)
        return {"stored": stored is not None, "diff": diff}, diff or f"{one.name}: {label} is not published"

    show_differences(caller, compared, shown)

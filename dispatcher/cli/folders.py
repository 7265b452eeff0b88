"""Folders: definitions in files, compared with what is stored under their names."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import typer
from msgspec import Struct

from dispatcher.base.values.counts import counted
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.failures import FAILED, unreadable
from dispatcher.cli.terminal.console import plain


class Compared(Struct, frozen=True):
    """A file, compared with what is stored under its name."""

    name: str
    path: str
    # Whether something else is stored, or nothing.
    differs: bool
    # Whether it has still to be published or activated.
    waits: bool


def paths_of(folder: Path, suffixes: Sequence[str], count_max: int) -> list[tuple[Path, str]]:
    """Return the files of a folder with these suffixes, each with its path for messages."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix in suffixes and path.is_file())
    if not paths:
        ends = ", ".join(f"*{suffix}" for suffix in suffixes)
        raise typer.BadParameter(f"{plain(folder)} has no file {ends}", param_hint="FOLDER")
    if len(paths) > count_max:
        raise typer.BadParameter(f"{plain(folder)} has {len(paths)} files, over {count_max}", param_hint="FOLDER")
    return [(path, path.relative_to(folder).as_posix()) for path in paths]


def content_of(path: Path, bytes_max: int) -> bytes | str:
    """Return the bytes of a file, or why they cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(bytes_max + 1)
    except OSError as fault:
        return unreadable(fault)
    except ValueError:
        return "cannot be read: no such path"
    return content if len(content) <= bytes_max else f"has more than {bytes_max} bytes"


def same_names(files: Iterable[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    """Yield the path and the fault of each file whose name an earlier file has. `files` has names and paths."""
    first: dict[str, str] = {}
    for name, path in files:
        if first.setdefault(name, path) != path:
            yield path, f"{first[name]} is called {name}, too"


def show_differences(
    caller: Caller, compared: Sequence[Compared], shown: Callable[[Compared], tuple[Mapping[str, object], str]]
) -> None:
    """Show what a sync would change; exits with FAILED if it would change anything."""
    differing = [one for one in compared if one.differs or one.waits]
    for one in differing:
        record, text = shown(one)
        if caller.output.as_json:
            caller.output.record({"name": one.name, "file": one.path, **record})
        else:
            caller.output.content(text)
    if differing:
        caller.output.info(f"{len(differing)} of {len(compared)} differ")
        raise typer.Exit(FAILED)
    if not caller.output.as_json:
        caller.output.text(f"all {len(compared)} are stored as they are here")


def show_saved(
    caller: Caller, noun: str, waited: str, saved: Sequence[tuple[Compared, int, Mapping[str, object]]]
) -> None:
    """Show what a sync has saved: each with its version, and more fields for its record."""
    for one, version, more in saved:
        if caller.output.as_json:
            record = {"name": one.name, "file": one.path, "version": version, "changed": one.differs}
            caller.output.record({**record, **more})
        elif one.differs or one.waits:
            done = [words for words, is_so in (("saved", one.differs), (waited, one.waits)) if is_so]
            caller.output.text(plain(f"{noun} {one.name}: version {version} is {' and '.join(done)}"))
    caller.output.info(f"{counted(len(saved), noun)}, {sum(one.differs for one, _, _ in saved)} of them changed")


def show_others(caller: Caller, others: Sequence[str]) -> None:
    """Show what is stored and not in the folder."""
    if others:
        caller.output.info(plain(f"stored, and not in the folder: {', '.join(others)}"))

"""Results of a command: as JSON where that was asked for, else as text and tables."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Protocol

from msgspec import Raw, Struct

from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.options import second
from dispatcher.cli.session import Session
from dispatcher.cli.terminal.console import plain


def tell(caller: Caller | Session, record: object, *lines: str) -> None:
    """Show a result: as a record, or as lines."""
    if caller.output.as_json:
        caller.output.record(record)
        return
    for line in lines:
        caller.output.text(plain(line))


def show_list(
    caller: Caller, rows: Sequence[Any], columns: Sequence[str], cells: Callable[[Any], Sequence[object]], nothing: str
) -> None:
    """Show rows: each as a record, or all in a table; with a hint where --limit has cut them off."""
    if caller.output.as_json:
        for row in rows:
            caller.output.record(row)
        return
    if not rows:
        caller.output.text(plain(nothing))
        return
    caller.output.table(columns, map(cells, rows))
    after = next((getattr(rows[-1], name) for name in ("key", "name") if hasattr(rows[-1], name)), None)
    if len(rows) == caller.given.limit and after is not None:
        caller.output.info(plain(f"there may be more: see --after {after}"))


def show_facts(caller: Caller, title: str, name: str, facts: Struct, *without: str, **words: str) -> None:
    """Show a struct: its fields with a value but `without` some, a line each; `words` replace values for people."""
    if caller.output.as_json:
        caller.output.record(facts)
        return
    named = (field for field in facts.__struct_fields__ if field not in without)
    rows = [(field.replace("_", " "), words.get(field, cell(getattr(facts, field)))) for field in named]
    caller.output.table((title, name), (row for row in rows if row[1] not in (None, "")))


class Tried(Protocol):
    """A delivery with its attempts: all of them, and those that count toward the limit."""

    @property
    def attempt(self) -> int: ...
    @property
    def tries(self) -> int: ...
    @property
    def max_attempts(self) -> int: ...


def tries(one: Tried) -> str:
    """Return the tries since a delivery was last sent again, of those that it has; beside them how many there were."""
    in_all = f" ({one.attempt} in all)" if one.attempt != one.tries else ""
    return f"{one.tries}/{one.max_attempts}{in_all}"


def cell(value: object) -> object:
    """Return a value for people."""
    match value:
        case datetime():
            return second(value)
        case bool():
            return "yes" if value else "no"
        case Raw():
            return None if bytes(value) == b"null" else bytes(value).decode()
        case list() | tuple():
            return ", ".join(map(str, value))
        case _:
            return value

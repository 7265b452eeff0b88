"""Output: what a command has to say, as JSON where that was asked for, else in words and tables."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from msgspec import Raw, Struct

from dispatcher.cli.caller import Caller
from dispatcher.cli.operating import second
from dispatcher.cli.voice import plain


def tell(caller: Caller, record: object, *lines: str) -> None:
    """Say what was done: a record, or lines."""
    if caller.voice.as_json:
        caller.voice.record(record)
        return
    for line in lines:
        caller.voice.text(plain(line))


def show_list(
    caller: Caller, rows: Sequence[Any], columns: Sequence[str], cells: Callable[[Any], Sequence[object]], nothing: str
) -> None:
    """Show rows: each as a record, or all in a table; and where to read on, where --limit has cut them off."""
    if caller.voice.as_json:
        for row in rows:
            caller.voice.record(row)
        return
    if not rows:
        caller.voice.text(plain(nothing))
        return
    caller.voice.table(columns, map(cells, rows))
    after = next((getattr(rows[-1], name) for name in ("name", "key") if hasattr(rows[-1], name)), None)
    if len(rows) == caller.given.limit and after is not None:
        caller.voice.say(plain(f"there may be more: see --after {after}"))


def show_facts(caller: Caller, title: str, name: str, facts: Struct, *without: str) -> None:
    """Show a struct: the fields that have a value, one a line, `without` those that are shown elsewhere."""
    if caller.voice.as_json:
        caller.voice.record(facts)
        return
    named = ((field, getattr(facts, field)) for field in facts.__struct_fields__ if field not in without)
    rows = [(field.replace("_", " "), cell(value)) for field, value in named if value is not None]
    caller.voice.table((title, name), rows)


def cell(value: object) -> object:
    """A value as people read it."""
    match value:
        case datetime():
            return second(value)
        case bool():
            return "yes" if value else "no"
        case Raw():
            return bytes(value).decode()
        case list() | tuple():
            return ", ".join(map(str, value))
        case _:
            return value

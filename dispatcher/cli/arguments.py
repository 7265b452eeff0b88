"""Arguments: JSON objects on the command line, in a file or on standard input, NAME=VALUE, and times."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import typer

from dispatcher.base.values.durations import duration, instant
from dispatcher.cli.failures import unreadable
from dispatcher.cli.terminal.console import plain
from dispatcher.cli.terminal.standard_streams import standard_input

STANDARD_INPUT = "-"
# More than the database takes of any object: a file of the wrong kind is refused before it fills the memory.
FILE_BYTES_MAX = 16 * 1024 * 1024

_object = msgspec.json.Decoder(dict[str, Any]).decode
_raw_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def object_text(option: str, given: str) -> str:
    """Return the JSON object of an option: its text, or the content of FILE or @FILE; - is the standard input."""
    text = given if given.lstrip().startswith("{") else _content(option, given)
    try:
        _object(text)
    except (ValueError, RecursionError) as fault:
        raise typer.BadParameter(f"not a JSON object: {fault}", param_hint=option) from fault
    return text


def _content(option: str, given: str) -> str:
    path = given.removeprefix("@")
    try:
        if path == STANDARD_INPUT:
            content = standard_input().read(FILE_BYTES_MAX + 1)
        else:
            with Path(path).open("rb") as file:
                content = file.read(FILE_BYTES_MAX + 1)
        if len(content) > FILE_BYTES_MAX:
            raise typer.BadParameter(f"{plain(path)} has more than {FILE_BYTES_MAX} bytes", param_hint=option)
        return content.decode("utf-8-sig")
    except (OSError, ValueError) as fault:
        # A path with a NUL or a surrogate is a ValueError, too.
        words = unreadable(fault) if isinstance(fault, OSError) else "is not UTF-8"
        raise typer.BadParameter(f"{plain(path)} {words}", param_hint=option) from fault


def object_with_pairs(option: str, given: str | None, pair_option: str, pairs: Iterable[str]) -> str:
    """Return the JSON object of an option, with the values that NAME=VALUE adds."""
    values: dict[str, Any] = {} if given is None else dict(_raw_object(object_text(option, given)))
    try:
        return msgspec.json.encode(with_pairs(values, pair_option, pairs)).decode()
    except UnicodeEncodeError as fault:
        raise typer.BadParameter("is not UTF-8", param_hint=pair_option) from fault


def with_pairs(values: dict[str, Any], option: str, pairs: Iterable[str]) -> dict[str, Any]:
    """Return an object with the values that NAME=VALUE adds: JSON, else text."""
    for one in pairs:
        name, value = pair(option, one)
        values[name] = _json_or_text(value)
    return values


def pair(option: str, text: str) -> tuple[str, str]:
    """Return the name and the value of NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise typer.BadParameter("expected NAME=VALUE", param_hint=option)
    return name, value


def _json_or_text(text: str) -> msgspec.Raw | str:
    try:
        msgspec.json.decode(text)
    except (ValueError, RecursionError):
        return text
    return msgspec.Raw(text)


def moment(option: str, text: str) -> datetime:
    """Return a time, given as such or as a duration before now."""
    seconds = duration(text)
    try:
        return instant(text) if seconds is None else datetime.now(UTC) - timedelta(seconds=seconds)
    except (ValueError, OverflowError) as fault:
        words = "expected a time in RFC 3339, such as 2030-12-31T08:00:00Z, or how long ago, such as 2h30m"
        raise typer.BadParameter(words, param_hint=option) from fault

"""Rules as they are written: offsets as durations, and the recipients that an audience has by default."""

from collections.abc import Mapping
from typing import Any

from dispatcher.base.errors import Fault, did_you_mean
from dispatcher.base.values.durations import DURATION_WORDS, duration, format_duration

_BY_AUDIENCE = {"lead": "includeLeadContact", "partner": "includePartner", "agent": "includeAgent"}
NO_TRIGGER = "there is no trigger "


def offset_seconds(text: str) -> int | None:
    """Return the seconds of an offset, negative before the event; None for a text that is not one."""
    bare = text.strip()
    seconds = duration(bare.removeprefix("-").removeprefix("+"))
    if seconds is None or not seconds.is_integer():
        return None
    return -int(seconds) if bare.startswith("-") else int(seconds)


def format_offset(seconds: int) -> str:
    """Return an offset in short form: `-1d`."""
    return f"-{format_duration(-seconds)}" if seconds < 0 else format_duration(seconds)


OFFSET_WORDS = f"is not an offset in whole seconds: {DURATION_WORDS}; with - for before the event"


def default_recipients(audience: str) -> dict[str, Any]:
    """Return whom a step reaches that names no recipients."""
    return {_BY_AUDIENCE[audience]: True} if audience in _BY_AUDIENCE else {}


def hinted(faults: list[Fault], names: list[str]) -> list[Fault]:
    """Return faults with the trigger that was perhaps meant."""
    return [
        Fault(one.path, one.message + did_you_mean(one.message.removeprefix(NO_TRIGGER).strip("'"), names))
        if one.message.startswith(NO_TRIGGER)
        else one
        for one in faults
    ]


def with_sample(asked: Mapping[str, Any], sample: Mapping[str, Any]) -> dict[str, Any]:
    """Return an event with what it leaves out as the sample of its trigger has it."""
    people = ("lead", "partner", "agent")
    variables = {name: value for name, value in sample.items() if name not in people} | asked.get("variables", {})
    return {name: sample[name] for name in people if name in sample} | dict(asked) | {"variables": variables}

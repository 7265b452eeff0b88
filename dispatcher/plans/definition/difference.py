"""The difference between two definitions: nodes, steps and edges that were added, removed or changed."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal

from msgspec import Struct

from dispatcher.plans.definition.paths import ROOT, inside
from dispatcher.plans.drawing.labels import short

VALUE_CHARACTERS_MAX = 60


class Change(Struct, frozen=True):
    """One difference. Its place has the names of nodes and steps, not their numbers."""

    kind: Literal["added", "removed", "changed", "moved"]
    place: str
    before: Any = None
    after: Any = None

    def __str__(self) -> str:
        match self.kind:
            case "added":
                return f"+ {self.place}: {_shown(self.after)}"
            case "removed":
                return f"- {self.place}: {_shown(self.before)}"
            case "changed":
                return f"~ {self.place}: {_shown(self.before)} -> {_shown(self.after)}"
            case "moved":
                return f"~ {self.place}: in another order"


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[Change]:
    """The differences of two definitions, in the order of the second."""
    return list(_objects(ROOT, before, after))


def _objects(place: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[Change]:
    for key in dict.fromkeys([*after, *before]):
        at = inside(place, key)
        if key not in after:
            yield Change("removed", at, before=before[key])
        elif key not in before:
            yield Change("added", at, after=after[key])
        else:
            yield from _values(at, before[key], after[key])


def _values(place: str, before: object, after: object) -> Iterator[Change]:
    # In Python 1 equals true; in JSON it does not.
    if json.dumps(before) == json.dumps(after):
        return
    if isinstance(before, dict) and isinstance(after, dict):
        yield from _objects(place, before, after)
        return
    if isinstance(before, list) and isinstance(after, list):
        ours, theirs = _named(before), _named(after)
        if ours is not None and theirs is not None:
            yield from _objects(place, ours, theirs)
            if [name for name in ours if name in theirs] != [name for name in theirs if name in ours]:
                yield Change("moved", place)
            return
    if json.dumps(before, sort_keys=True) != json.dumps(after, sort_keys=True):
        yield Change("changed", place, before, after)


def _named(items: Sequence[object]) -> dict[str, Any] | None:
    """Nodes, steps or edges by name; None where the items of a list have no names."""
    found: dict[str, Any] = {}
    for item in items:
        name = _name(item)
        if name is None:
            return None
        number, own = 2, name
        while own in found:
            own, number = f"{name} ({number})", number + 1
        found[own] = item
    return found


def _name(item: object) -> str | None:
    match item:
        case {"from": str(start), "to": str(end)}:
            return f"{start} -> {end}"
        case {"id": str(name)} | {"name": str(name)}:
            return name
        case _:
            return None


def _shown(value: object) -> str:
    return short(json.dumps(value, ensure_ascii=False), VALUE_CHARACTERS_MAX)

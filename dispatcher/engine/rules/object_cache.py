"""The object cache of a lane: the stored objects that its deliveries carry or carried last, within a bound.

An object is in memory once, however many deliveries carry it. Unused objects stay until their room is needed.
"""

import re
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from dispatcher.base.errors import TemplateError

# A tenant, a workspace, and what the object is called there.
Name = tuple[str, str, str]
# A delivery and the token of its claim.
Carrier = tuple[int, int]

OPTIONS = ("attachments", "inline")
FILES_MAX = 100
# The memory of an object beside its content, so that empty objects are counted too.
OVERHEAD_BYTES = 512

# As the schema has them.
is_name = re.compile(r"[A-Za-z0-9][A-Za-z0-9._/:@+-]{0,199}").fullmatch
_WORD = r"[A-Za-z0-9!#$&^_.+-]+"
MEDIA_TYPE = rf"{_WORD}/{_WORD}"
is_media_type = re.compile(rf"(?=.{{1,100}}\Z){MEDIA_TYPE}").fullmatch


class Stored(Struct, frozen=True):
    """The content of an object."""

    content_type: str
    content: bytes


class ObjectCache:
    """The objects in memory. Room is taken before an object is loaded, so that loading never exceeds the bound."""

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.bytes = 0
        self.carried: dict[Carrier, frozenset[Name]] = {}
        self._rooms: dict[Name, int] = {}
        self._contents: dict[Name, Stored] = {}
        self._carriers: dict[Name, int] = {}
        # Objects that no delivery carries, the longest unused first.
        self._idle: OrderedDict[Name, int] = OrderedDict()
        self._idle_bytes = 0

    def possible(self, names: frozenset[Name], sizes: Mapping[Name, int]) -> bool:
        """Return whether there would be room for these in an empty cache."""
        return sum(sizes[name] + OVERHEAD_BYTES for name in names) <= self.bytes_max

    def carry(self, carrier: Carrier, names: frozenset[Name], sizes: Mapping[Name, int]) -> bool:
        """Let a delivery carry objects; False where there is no room for the new ones."""
        new = {name: sizes[name] + OVERHEAD_BYTES for name in names if name not in self._rooms}
        wanted = sum(new.values())
        spare = self._idle_bytes - sum(self._idle.get(name, 0) for name in names)
        if self.bytes - spare + wanted > self.bytes_max:
            return False
        for name in names:
            self._idle_bytes -= self._idle.pop(name, 0)
            self._carriers[name] = self._carriers.get(name, 0) + 1
        while self.bytes + wanted > self.bytes_max:
            self._drop(next(iter(self._idle)))
        self._rooms |= new
        self.bytes += wanted
        self.carried[carrier] = names
        return True

    def put(self, name: Name, stored: Stored) -> None:
        """Add the content of an object that has room."""
        self._contents[name] = stored

    def get(self, name: Name) -> Stored | None:
        """Return the content of an object, where it is loaded."""
        return self._contents.get(name)

    def release(self, carriers: Iterable[Carrier]) -> None:
        """Free the objects of these deliveries."""
        for carrier in carriers:
            for name in self.carried.pop(carrier, ()):
                self._carriers[name] -= 1
                if not self._carriers[name]:
                    del self._carriers[name]
                    self._idle[name] = self._rooms[name]
                    self._idle_bytes += self._rooms[name]
                    if name not in self._contents:  # it was never loaded
                        self._drop(name)

    def _drop(self, name: Name) -> None:
        room = self._rooms.pop(name)
        self.bytes -= room
        self._idle_bytes -= self._idle.pop(name)
        self._contents.pop(name, None)


def names_objects(options: Mapping[str, Any]) -> bool:
    """Return whether options name an object."""
    return any(
        isinstance(one, Mapping) and "object" in one
        for option in OPTIONS
        if option in options and isinstance(options[option], list)
        for one in options[option]
    )


def named(options: Mapping[str, Any], tenant_id: str, workspace_id: str) -> dict[str, Name]:
    """Return the objects that options name, by field."""
    found: dict[str, Name] = {}
    for option in OPTIONS:
        files = options.get(option)
        for index, one in enumerate(files) if isinstance(files, list) else ():
            if isinstance(one, Mapping) and "object" in one:
                field = f"options.{option}[{index}].object"
                if not isinstance(one["object"], str) or not is_name(one["object"]):
                    raise TemplateError(field, "is not the name of a stored object; check it")
                if "content" in one:
                    raise TemplateError(field, "stands beside a content; leave one out")
                found[field] = (tenant_id, workspace_id, one["object"])
    if len(found) > FILES_MAX:
        raise TemplateError("options", f"name more than {FILES_MAX} stored objects; leave some out")
    return found


def filled(options: Mapping[str, Any], stored: Mapping[str, Stored]) -> dict[str, Any]:
    """Return options with the content of their objects. Values beside a name take precedence."""
    full = dict(options)
    for option in OPTIONS:
        if isinstance(files := options.get(option), list):
            full[option] = [
                _file(one, stored.get(f"options.{option}[{index}].object")) for index, one in enumerate(files)
            ]
    return full


def _file(one: Any, stored: Stored | None) -> Any:  # noqa: ANN401 - whatever the options have
    if stored is None:
        return one
    name = one["object"].rpartition("/")[2] or one["object"]
    rest = {key: value for key, value in one.items() if key != "object"}
    return {"name": name, "type": stored.content_type, **rest, "content": stored.content}

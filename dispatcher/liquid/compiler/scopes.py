"""Which Python variable a name of a template stands for, where it stands."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

# What the library puts before everything else, and which we leave to it.
_RESERVED: Final = frozenset({"partial"})


class NotCompiled(Exception):  # noqa: N818 - as the errors of the house
    """This template is left to the library."""


@dataclass
class Loop:
    """A loop around the place, as its `forloop` tells of it."""

    title: str
    index: str
    length: str
    parent: "Loop | None"
    is_counted: bool = False


@dataclass
class Assigned:
    """A name that is assigned somewhere in the template; before that, it is a variable like others."""

    variable: str
    is_sure: bool = False


Place = str | Loop | Assigned


@dataclass
class Scope:
    """The names of a template and of what it includes; what is rendered by it has a scope of its own."""

    assigned: dict[str, Assigned]
    given: Mapping[str, str] = field(default_factory=dict)
    frames: list[dict[str, str | Loop]] = field(default_factory=list)

    def find(self, name: str) -> Place | None:
        """The binding of a name; None for a variable of the rendering."""
        if name in _RESERVED:
            raise NotCompiled(name)
        for frame in reversed(self.frames):
            if name in frame:
                return frame[name]
        return self.assigned.get(name) or self.given.get(name)

    def loop(self) -> Loop | None:
        """The innermost loop."""
        for frame in reversed(self.frames):
            found = frame.get("forloop")
            if isinstance(found, Loop):
                return found
        return None

    def sure(self) -> set[str]:
        """The names that are assigned whatever happened before."""
        return {name for name, one in self.assigned.items() if one.is_sure}

    def forget(self, sure: set[str]) -> None:
        """After a branch: only these are assigned for sure."""
        for name, one in self.assigned.items():
            one.is_sure = name in sure

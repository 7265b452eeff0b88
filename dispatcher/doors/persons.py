"""Persons: what somebody was sent and why, everything there is about them, and taking them away, by either door."""

from collections.abc import Sequence
from typing import Any, Protocol

from msgspec import Struct

from dispatcher.domain.addresses import Address
from dispatcher.domain.persons import Person
from dispatcher.doors.nouns import Row, Whose
from dispatcher.store.templates import Workspace

# Where a page begins: what each door makes of it is its own affair.
Mark = Any


class Part(Struct, frozen=True):
    """A page, which may be empty and go on all the same; and where the next one begins, None behind the last."""

    rows: Sequence[Any]
    behind: Mark | None


class Progress(Struct, frozen=True):
    """How far an erasure has come, and how many deliveries it waits for."""

    deliveries: int
    runs: int
    waits_for: int
    finished: bool


class Persons(Protocol):
    """Those whom messages are for, wherever they stand."""

    async def find(self, whose: Whose, addresses: Sequence[Address], contact: str | None) -> Person | None:
        """Whoever is behind addresses and a contact; None where there is no such contact."""

    async def timeline(self, whose: Whose, meant: Address, behind: Mark | None, count: int) -> Part:
        """What was sent to an address, and said about it, the newest first."""

    async def export(self, whose: Whose, who: Person, behind: Mark | None) -> Part:
        """Everything there is about somebody."""

    async def places(self, whose: Whose, *, everywhere: bool) -> list[Workspace]:
        """Where somebody would be erased: in one workspace, which comes first, or wherever the tenant has anything."""

    async def erase(self, place: Workspace, who: Person, contact: str | None, actor: str, reason: str) -> int:
        """Ask for an erasure, and delete the contact; its number. May be asked twice."""

    async def go_on(self, place: Workspace, number: int) -> Progress:
        """Look at an erasure that is not finished, after a while or by doing a part of it: how far it has come."""

    async def erasures(self, whose: Whose, count: int) -> list[Row]:
        """The newest."""

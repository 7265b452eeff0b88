"""Doors: all that can be asked for through one door, noun by noun."""

from typing import Protocol

from dispatcher.doors.kept import Pauses, Templates
from dispatcher.doors.nouns import (
    DeadLetters,
    Deliveries,
    Held,
    Runs,
    Suppressions,
    Whose,
    Workflows,
)
from dispatcher.doors.people import Contacts
from dispatcher.doors.persons import Persons
from dispatcher.store.templates import Workspace


class Doors(Protocol):
    """All that can be asked for through one door."""

    @property
    def deliveries(self) -> Deliveries:
        """Single messages."""

    @property
    def held(self) -> Held:
        """Those whose outcome nobody knows."""

    @property
    def dead(self) -> DeadLetters:
        """What has failed for good."""

    @property
    def workflows(self) -> Workflows:
        """Definitions."""

    @property
    def runs(self) -> Runs:
        """Walks through them."""

    @property
    def suppressions(self) -> Suppressions:
        """Who gets nothing more."""

    @property
    def templates(self) -> Templates:
        """What messages say."""

    @property
    def pauses(self) -> Pauses:
        """What is stopped."""

    @property
    def contacts(self) -> Contacts:
        """The people of a workspace."""

    @property
    def persons(self) -> Persons:
        """Those whom messages are for."""

    async def workspace(self, whose: Whose) -> Workspace:
        """Which workspace is meant, by its names."""

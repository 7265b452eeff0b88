"""All doors to one database."""

from collections.abc import Callable

from dispatcher.config import Config
from dispatcher.doors.nouns import Whose
from dispatcher.doors.stored.contacts import StoredContacts
from dispatcher.doors.stored.deliveries import StoredDeliveries
from dispatcher.doors.stored.operating import StoredDeadLetters, StoredHeld
from dispatcher.doors.stored.pauses import StoredPauses
from dispatcher.doors.stored.persons import StoredPersons
from dispatcher.doors.stored.runs import StoredRuns
from dispatcher.doors.stored.suppressions import StoredSuppressions
from dispatcher.doors.stored.templates import StoredTemplates
from dispatcher.doors.stored.workflows import StoredWorkflows
from dispatcher.store.database import Database
from dispatcher.store.templates import Workspace


class StoredDoors:
    """Asks a database. Its configuration is read when something needs it."""

    def __init__(self, database: Database, config: Callable[[], Config]) -> None:
        self.deliveries = StoredDeliveries(database, config)
        self.held = StoredHeld(database)
        self.dead = StoredDeadLetters(database)
        self.workflows = StoredWorkflows(database, config)
        self.runs = StoredRuns(database, config)
        self.suppressions = StoredSuppressions(database, config)
        self.pauses = StoredPauses(database)
        self.contacts = StoredContacts(database)
        self.persons = StoredPersons(database)
        self.templates = StoredTemplates(database, config)

    async def workspace(self, whose: Whose) -> Workspace:
        """Which workspace is meant."""
        return whose.workspace

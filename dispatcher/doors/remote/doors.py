"""All doors of one server."""

from dispatcher.client.transport import Transport
from dispatcher.doors.nouns import Whose
from dispatcher.doors.remote.calls import Calls
from dispatcher.doors.remote.contacts import RemoteContacts
from dispatcher.doors.remote.deliveries import RemoteDeliveries
from dispatcher.doors.remote.operating import RemoteDeadLetters, RemoteHeld
from dispatcher.doors.remote.pauses import RemotePauses
from dispatcher.doors.remote.persons import RemotePersons
from dispatcher.doors.remote.runs import RemoteRuns
from dispatcher.doors.remote.suppressions import RemoteSuppressions
from dispatcher.doors.remote.templates import RemoteTemplates
from dispatcher.doors.remote.workflows import RemoteWorkflows
from dispatcher.store.templates import Workspace


class RemoteDoors:
    """Asks a server."""

    def __init__(self, transport: Transport) -> None:
        self._calls = Calls(transport)
        self.deliveries = RemoteDeliveries(self._calls)
        self.held = RemoteHeld(self._calls)
        self.dead = RemoteDeadLetters(self._calls)
        self.workflows = RemoteWorkflows(self._calls)
        self.runs = RemoteRuns(self._calls)
        self.suppressions = RemoteSuppressions(self._calls)
        self.pauses = RemotePauses(self._calls)
        self.contacts = RemoteContacts(self._calls)
        self.persons = RemotePersons(self._calls)
        self.templates = RemoteTemplates(self._calls)

    async def workspace(self, whose: Whose) -> Workspace:
        """What the key opens; raises OtherWorkspace where something else is named."""
        return await self._calls.workspace(whose)

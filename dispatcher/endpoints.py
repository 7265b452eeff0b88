"""Every endpoint there is: the registry that the HTTP server and its document are made of."""

from collections.abc import Sequence
from types import ModuleType

from dispatcher.features.audit import endpoints as audit
from dispatcher.features.contacts import endpoints as contacts
from dispatcher.features.dead_letters import endpoints as dead_letters
from dispatcher.features.deliveries import endpoints as deliveries
from dispatcher.features.held import endpoints as held
from dispatcher.features.keys import endpoints as keys
from dispatcher.features.objects import endpoints as objects
from dispatcher.features.pauses import endpoints as pauses
from dispatcher.features.persons import endpoints as persons
from dispatcher.features.runs import endpoints as runs
from dispatcher.features.runs.dry_run import endpoints as dry_run
from dispatcher.features.runs.older_interface import endpoints
from dispatcher.features.schedules import endpoints as schedules
from dispatcher.features.suppressions import endpoints as suppressions
from dispatcher.features.templates import endpoints as templates
from dispatcher.features.webhooks import endpoints as webhooks
from dispatcher.features.workflows import endpoints as workflows
from dispatcher.http import own_key
from dispatcher.http.endpoints import Endpoint

MODULES = (
    deliveries,
    held,
    dead_letters,
    workflows,
    templates,
    runs,
    dry_run,
    schedules,
    contacts,
    persons,
    endpoints,
    webhooks,
    own_key,
    suppressions,
    keys,
    pauses,
    objects,
    audit,
)


def _declared(module: ModuleType) -> Sequence[Endpoint]:
    """The endpoints that a module lists in its ENDPOINTS, else all that it defines, in their order."""
    found: Sequence[Endpoint] | None = getattr(module, "ENDPOINTS", None)
    return found or [one for one in vars(module).values() if isinstance(one, Endpoint)]


ENDPOINTS: Sequence[Endpoint] = tuple(one for module in MODULES for one in _declared(module))

"""The endpoint registry: the HTTP server and its document are made of it."""

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from dispatcher.http.endpoints import Endpoint

# In the order of the document.
MODULES = (
    "dispatcher.features.deliveries.endpoints",
    "dispatcher.features.deliveries.sweep_endpoint",
    "dispatcher.features.overview.endpoints",
    "dispatcher.features.held.endpoints",
    "dispatcher.features.captured.endpoints",
    "dispatcher.features.dead_letters.endpoints",
    "dispatcher.features.workflows.endpoints",
    "dispatcher.features.templates.endpoints",
    "dispatcher.features.runs.endpoints",
    "dispatcher.features.runs.dry_run.endpoints",
    "dispatcher.features.schedules.endpoints",
    "dispatcher.features.rules.event_endpoints",
    "dispatcher.features.rules.endpoints",
    "dispatcher.features.workspaces.endpoints",
    "dispatcher.features.quiet_hours.endpoints",
    "dispatcher.features.contacts.endpoints",
    "dispatcher.features.sequences.endpoints",
    "dispatcher.features.persons.endpoints",
    "dispatcher.features.campaigns.endpoints",
    "dispatcher.features.runs.older_interface.endpoints",
    "dispatcher.features.webhooks.endpoints",
    "dispatcher.http.own_key",
    "dispatcher.features.suppressions.endpoints",
    "dispatcher.features.keys.endpoints",
    "dispatcher.features.pauses.endpoints",
    "dispatcher.features.caps.endpoints",
    "dispatcher.features.cells.endpoints",
    "dispatcher.features.objects.endpoints",
    "dispatcher.features.audit.endpoints",
)


def _declared(module: ModuleType) -> Sequence[Endpoint]:
    """The endpoints that a module lists in its ENDPOINTS, else all that it defines, in their order."""
    found: Sequence[Endpoint] | None = getattr(module, "ENDPOINTS", None)
    return found or [one for one in vars(module).values() if isinstance(one, Endpoint)]


ENDPOINTS: Sequence[Endpoint] = tuple(one for name in MODULES for one in _declared(import_module(name)))

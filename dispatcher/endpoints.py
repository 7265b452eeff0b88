"""Every endpoint there is: the registry that the HTTP server and its document are made of."""

from collections.abc import Sequence

from dispatcher.api import (
    audit,
    contacts,
    dead_letters,
    deliveries,
    enqueueing,
    held,
    own_key,
    pauses,
    persons,
    planning,
    runs,
    suppressions,
    templates,
    workflows,
)
from dispatcher.api.endpoints import Endpoint
from dispatcher.features.keys import endpoints as keys
from dispatcher.features.objects import endpoints as objects
from dispatcher.features.schedules import endpoints as schedules
from dispatcher.features.webhooks import endpoints as webhooks

ENDPOINTS: Sequence[Endpoint] = (
    *deliveries.ENDPOINTS,
    *held.ENDPOINTS,
    *dead_letters.ENDPOINTS,
    *workflows.ENDPOINTS,
    *templates.ENDPOINTS,
    *runs.ENDPOINTS,
    *planning.ENDPOINTS,
    *schedules.ENDPOINTS,
    *contacts.ENDPOINTS,
    *persons.ENDPOINTS,
    *enqueueing.ENDPOINTS,
    *webhooks.ENDPOINTS,
    *own_key.ENDPOINTS,
    *suppressions.ENDPOINTS,
    *keys.ENDPOINTS,
    *pauses.ENDPOINTS,
    *objects.ENDPOINTS,
    *audit.ENDPOINTS,
)

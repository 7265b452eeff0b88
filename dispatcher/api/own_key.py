"""The key of a request, told to whoever shows it."""

from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.models import OwnKey


async def show(call: Call) -> Done:
    """The one that was shown."""
    return Done(OwnKey(call.key.name, call.key.role.value, call.key.tenant_id, call.key.workspace_id))


ENDPOINTS = (
    Endpoint(
        operation="getOwnKey",
        method="GET",
        path="/key",
        right=None,
        summary="Show which workspace the key of this request opens, and what it is good for",
        answer=OwnKey,
        handle=show,
    ),
)

"""The key of a request, told to whoever shows it."""

from msgspec import Struct

from dispatcher.api.endpoints import Call, Done, Endpoint


class OwnKey(Struct, frozen=True):
    """What it is called, what it is good for, and which workspace it opens."""

    name: str
    role: str
    tenant_id: str
    workspace_id: str


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

"""The endpoint that describes the key of its request."""

from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.models import OwnKey


@endpoint("GET", "/key", None, answered=OwnKey("shop", "triggerOperator", "default", "default"))
async def get_own_key(call: Call) -> Done:
    """Show which workspace the key of this request opens, and what it is good for."""
    return Done(OwnKey(call.key.name, call.key.role.value, call.key.tenant_id, call.key.workspace_id))

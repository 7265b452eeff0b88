"""Operators: keys of the one workspace that the configuration names may reach beyond it; no others may."""

from dispatcher.base.workspace import Workspace
from dispatcher.http.endpoints import Call
from dispatcher.http.problems import FORBIDDEN, Problem


def is_operator(call: Call) -> bool:
    """Whether a request shows a key of the operators' workspace, or is a local operator's."""
    if call.shown is None:
        return True
    tenant, _, workspace = call.served.config().api.operators.partition("/")
    return call.workspace == Workspace(tenant, workspace)


def require(call: Call, what: str) -> None:
    """Raise Problem unless the caller is an operator; `what` is what only operators may do."""
    if not is_operator(call):
        words = (
            f"the key {call.key.name} is one of {_here(call)}; "
            f"only keys of the operators' workspace (api.operators) {what}"
        )
        raise Problem(FORBIDDEN, words)


def _here(call: Call) -> str:
    return f"{call.workspace.tenant_id}/{call.workspace.workspace_id}"


def actor(call: Call, where: Workspace | None) -> str:
    """Return the actor in a workspace, or (None) everywhere: a key of that workspace may have the same name."""
    return call.actor if call.shown is None or where == call.workspace else f"{call.actor} of {_here(call)}"


def requested_workspace(call: Call, tenant_id: str | None, workspace_id: str | None) -> Workspace:
    """Return the workspace that a request is about: the key's own, or for operators any."""
    if call.shown is None:
        return Workspace(tenant_id or "default", workspace_id or "default")
    here = call.workspace
    asked = Workspace(tenant_id or here.tenant_id, workspace_id or here.workspace_id)
    if asked != here:
        require(call, "open others")
    return asked

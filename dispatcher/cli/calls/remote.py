"""Remote calls: an endpoint of the server that DISPATCHER_URL names, asked for over HTTP."""

from dispatcher.base.errors import Fault, OtherWorkspace
from dispatcher.base.workspace import Workspace
from dispatcher.cli.calls.caller import Request
from dispatcher.client.errors import ClientError, Unexpected
from dispatcher.client.transport import Octets, Transport, segment
from dispatcher.http.models import OwnKey
from dispatcher.http.problems import CHANGED, CONFLICT, ERASED, FAULTY, KEY_REUSED, NOT_FOUND, TOO_LARGE, Problem

# The problems of handlers, also locally; all others are about the server or the key.
_OF_HANDLERS = {kind.name: kind for kind in (FAULTY, NOT_FOUND, CONFLICT, CHANGED, TOO_LARGE, KEY_REUSED, ERASED)}


class Remote:
    """Calls a server with a key, which opens one workspace."""

    def __init__(self, transport: Transport, tenant: str | None, workspace: str | None) -> None:
        self._transport = transport
        self._named = (("--tenant", tenant, "tenant_id"), ("--workspace", workspace, "workspace_id"))
        self._is_checked = tenant is None and workspace is None

    async def ask(self, request: Request) -> object:
        """Return the server's answer; raises Problem, or a ClientError about the server or the key."""
        if not (request.names_workspace or self._is_checked):
            await self.workspace()
        one = request.endpoint
        path = "/".join(segment(request.path[part[1:-1]]) if part[:1] == "{" else part for part in one.path.split("/"))
        body = Octets(request.body or b"") if request.is_file else request.body
        try:
            reply = await self._transport.ask(one.method, path, query=request.query, body=body, keyed=not one.looks)
        except ClientError as refused:
            # A proxy before the server has no kind.
            unnamed = TOO_LARGE if refused.status == TOO_LARGE.status else None
            kind = None if isinstance(refused, Unexpected) else _OF_HANDLERS.get(refused.kind or "", unnamed)
            if kind is None:
                raise
            more = [Fault("…", f"and {refused.more_faults:,} more")] if refused.more_faults else []
            raise Problem(kind, refused.detail, [*refused.faults, *more], answer=refused.answer) from refused
        return reply.read(one.answer)

    async def workspace(self) -> Workspace:
        """Return the workspace of the key. Raises OtherWorkspace where the options name another."""
        own = (await self._transport.ask("GET", "/key")).read(OwnKey)
        faults = [
            Fault(option, f"the key {own.name} opens {getattr(own, field)}, and not {given}")
            for option, given, field in self._named
            if given not in (None, getattr(own, field))
        ]
        if faults:
            raise OtherWorkspace(faults)
        self._is_checked = True
        return Workspace(own.tenant_id, own.workspace_id)

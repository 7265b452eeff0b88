"""A remote call does nothing where another workspace is named than the one that its key opens."""

from contextlib import aclosing
from typing import Any

import pytest

from dispatcher.base.errors import OtherWorkspace
from dispatcher.cli.calls.caller import PLACE, Request
from dispatcher.cli.calls.remote import Remote
from dispatcher.client.transport import Method, Reply, Transport
from dispatcher.endpoints import ENDPOINTS
from dispatcher.http.endpoints import Endpoint
from tests.support.remote_cli import RemoteCli


class Watched(Transport):
    """A transport that keeps what was asked for."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__(url, key)
        self.asked: list[str] = []

    async def ask(self, method: Method, path: str, **said: Any) -> Reply:
        """Ask for it, and remember."""
        self.asked.append(f"{method} {path}")
        return await super().ask(method, path, **said)


def _names_no_workspace(one: Endpoint) -> bool:
    return not any(kind is not None and set(PLACE) <= set(kind.__struct_fields__) for kind in (one.query, one.given))


@pytest.mark.parametrize(
    "one",
    [one for one in ENDPOINTS if _names_no_workspace(one) and not (one.enveloped or one.elsewhere)],
    ids=lambda one: one.operation,
)
async def test_no_endpoint_is_asked_where_another_workspace_is_named(remote: RemoteCli, one: Endpoint) -> None:
    request = Request(one, dict.fromkeys(one.names, "7"), {}, None, is_file=False, names_workspace=False)
    watched = Watched(remote.environment["DISPATCHER_URL"], remote.environment["DISPATCHER_KEY"])
    async with aclosing(watched) as transport:
        for tenant, workspace in (("acme", None), (None, "west")):
            with pytest.raises(OtherWorkspace, match=tenant or workspace):
                await Remote(transport, tenant, workspace).ask(request)
    assert transport.asked == ["GET /key"] * 2

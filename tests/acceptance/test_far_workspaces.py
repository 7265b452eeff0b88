"""A server's doors do nothing where another workspace is named than the one that their key opens."""

import inspect
from collections.abc import Callable, Iterator
from typing import Any, get_type_hints

import pytest

from dispatcher.api.endpoints import Endpoint
from dispatcher.cli.caller import PLACE, Request
from dispatcher.cli.remote import Remote
from dispatcher.client.transport import Method, Reply, Transport
from dispatcher.doors.nouns import Begin, DeliveryFilter, HeldFilter, Whose
from dispatcher.doors.remote.doors import RemoteDoors
from dispatcher.endpoints import ENDPOINTS
from dispatcher.errors import OtherWorkspace
from dispatcher.store import dead, runs
from tests.acceptance.far import Far

# Operators may name any workspace of theirs: the server knows who is one.
OPERATORS = ("keys", "pauses")
# As it is named by tenants and workspaces, by tenants alone, and inside of what is asked for.
NAMED: dict[Any, Any] = {
    Whose: Whose("acme"),
    Begin: Begin(workflow="welcome", input="{}", key=None, whose=Whose("acme"), by="ann"),
    DeliveryFilter: DeliveryFilter(tenant_id="acme"),
    HeldFilter: HeldFilter(None, "acme"),
    dead.Filter: dead.Filter(tenant_id="acme"),
    runs.Filter: runs.Filter(tenant_id="acme"),
}
NOUNS = sorted(set(vars(RemoteDoors(Transport("http://127.0.0.1:1", "none")))) - {"_calls", *OPERATORS})


class Watched(Transport):
    """A transport that keeps what was asked for."""

    def __init__(self, url: str, key: str) -> None:
        super().__init__(url, key)
        self.asked: list[str] = []

    async def ask(self, method: Method, path: str, **said: Any) -> Reply:
        """Ask for it, and remember."""
        self.asked.append(f"{method} {path}")
        return await super().ask(method, path, **said)


def _verbs(noun: object) -> Iterator[tuple[str, Callable[..., Any]]]:
    return ((name, verb) for name, verb in inspect.getmembers(noun, inspect.iscoroutinefunction) if name[0] != "_")


def _given(verb: Callable[..., Any]) -> dict[str, Any] | None:
    """Words for a verb that name another workspace, and nothing else of sense; None where it takes no workspace."""
    hints = get_type_hints(verb)
    given = {
        name: "acme" if name == "tenant_id" else NAMED.get(hints[name]) for name in inspect.signature(verb).parameters
    }
    looked_at = any(one for name, one in given.items() if name[0] != "_")
    return {name: [[]] if name == "pages" else one for name, one in given.items()} if looked_at else None


@pytest.mark.parametrize("noun", NOUNS)
async def test_nothing_is_done_where_another_workspace_is_named(far: Far, noun: str) -> None:
    transport = Watched(far.environment["DISPATCHER_URL"], far.environment["DISPATCHER_KEY"])
    async with transport:
        for _name, verb in _verbs(getattr(RemoteDoors(transport), noun)):
            if (given := _given(verb)) is not None:
                with pytest.raises(OtherWorkspace, match="acme"):
                    await verb(**given)
    assert set(transport.asked) == {"GET /key"}


def _names_no_workspace(one: Endpoint) -> bool:
    return not any(kind is not None and set(PLACE) <= set(kind.__struct_fields__) for kind in (one.query, one.given))


@pytest.mark.parametrize(
    "one", [one for one in ENDPOINTS if _names_no_workspace(one) and not one.enveloped], ids=lambda one: one.operation
)
async def test_no_endpoint_is_asked_where_another_workspace_is_named(far: Far, one: Endpoint) -> None:
    request = Request(one, dict.fromkeys(one.names, "7"), {}, None, is_file=False, names_workspace=False)
    async with Watched(far.environment["DISPATCHER_URL"], far.environment["DISPATCHER_KEY"]) as transport:
        for tenant, workspace in (("acme", None), (None, "west")):
            with pytest.raises(OtherWorkspace, match=tenant or workspace):
                await Remote(transport, tenant, workspace).ask(request)
    assert transport.asked == ["GET /key"] * 2

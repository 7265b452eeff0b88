"""Listing: a page ends where it would have ended, whatever is gone before it is read."""

import json
from typing import Any

import pytest
from litestar import Litestar

from dispatcher.base.workspace import Workspace
from dispatcher.config.settings import Config
from dispatcher.db.database import Database
from dispatcher.db.statements import statements
from dispatcher.db.tenants import Transaction
from dispatcher.endpoints import ENDPOINTS
from dispatcher.engine.store import backlog
from dispatcher.features.keys import store as keys
from dispatcher.features.runs.trigger_batches import TriggerBatches
from dispatcher.http.roles import Role
from dispatcher.http.server.routes import ApiRoutes
from tests.support import flows
from tests.support.home import Asked, call
from tests.support.scene import Connection


async def test_a_run_that_is_gone_in_the_middle_of_a_page_does_not_end_the_list(
    database: Database, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    await flows.put(connection)
    first, second, third, last = [(await flows.trigger(connection))["execution_id"] for _ in range(4)]
    made = await keys.create(database, Workspace(), "reader", Role.SYSTEM_ADMIN, None, by=("test", "test"))
    assert made is not None
    triggers = TriggerBatches(lambda: database)
    interface = ApiRoutes(ENDPOINTS, Config, lambda: database, backlog.ages, triggers.start)
    app = Litestar(interface.handlers(), openapi_config=None, logging_config=None)
    fetch = Transaction.fetch

    async def interrupted(self: Transaction, query: str, *arguments: object) -> Any:
        rows = await fetch(self, query, *arguments)
        if query == statements("dispatcher.features.runs.store")["newest"]:
            await connection.execute("DELETE FROM dispatcher.runs WHERE id = $1", third)
        return rows

    monkeypatch.setattr(Transaction, "fetch", interrupted)
    seen, query = list[int](), dict[str, str]()
    while True:
        answer = json.loads((await call(app, made.text, Asked("GET", "/runs", query={"limit": "2"} | query))).body)
        seen += [one["execution_id"] for one in answer["runs"]]
        if answer["next_cursor"] is None:
            break
        query = {"cursor": answer["next_cursor"]}
    assert seen == [last, second, first]

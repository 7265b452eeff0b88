"""The recipes with FastAPI: each served by uvicorn in a process of its own, and called over HTTP."""

import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from dispatcher.selftest.proxy import Proxy
from tests.recipes.conftest import RECIPES, Shop
from tests.support.caller import make_key
from tests.support.forks import ROOT
from tests.support.waits import until

ANN = {"email": "ann@example.org", "name": "Ann"}
NAMELESS = {"email": "ann@example.org"}
LISTENS = "Uvicorn running on "
START_SECONDS_MAX = 30.0


class Site:
    """A recipe that is being served."""

    def __init__(self, session: aiohttp.ClientSession) -> None:
        self._session = session

    async def call(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """One request; answers its status and its JSON."""
        async with self._session.request(method, path, json=body) as answer:
            return answer.status, await answer.json()

    async def told(self, path: str, body: object, expected: object) -> Any:
        """What a PUT answers, where it is of that status and that confirmation."""
        status, told = await self.call("PUT", path, body)
        return told if (status, told.get("confirmation")) == expected else None


@asynccontextmanager
async def served(app: str, folder: Any, **environment: str) -> AsyncIterator[Site]:
    """Serve it as its first lines say, on a free port."""
    log = folder / "uvicorn.log"
    words = ["--app-dir", str(RECIPES / "fastapi"), "--port", "0", app]
    with log.open("wb") as file:
        process = subprocess.Popen(  # noqa: ASYNC220 - forking takes a moment, and nothing else runs
            [sys.executable, "-m", "uvicorn", *words], stderr=file, env={"PYTHONPATH": str(ROOT), **environment}
        )

    def listens() -> str | None:
        assert process.poll() is None, log.read_text()
        return log.read_text().partition(LISTENS)[2].partition(" ")[0] or None

    try:
        address = await until(listens, "it listens", START_SECONDS_MAX)
        async with aiohttp.ClientSession(address) as session:
            yield Site(session)
    finally:
        process.kill()
        process.wait()


async def test_an_order_and_its_confirmation_are_one_transaction(shop: Shop, tmp_path: Any) -> None:
    async with served("inside:app", tmp_path, SHOP_DATABASE_URL=shop.url) as site:
        status, placed = await site.call("POST", "/orders", ANN)
        assert status == 201

        async def completed() -> bool:
            return await site.call("GET", f"/orders/{placed['id']}") == (
                200,
                {"id": placed["id"], "confirmation": "completed"},
            )

        await until(completed, "the order is confirmed")
        refused, told = await site.call("POST", "/orders", NAMELESS)
        assert (refused, told["faults"]) == (422, {"$.order.name": "is read by the workflow"})
        assert (await site.call("GET", f"/orders/{placed['id'] + 1}"))[0] == 404
    orders = "SELECT array_agg(run_id) FROM shop.orders"
    assert await shop.place.runs.connection.fetchval(orders) == [placed["run"]]


@pytest.fixture
async def line(shop: Shop) -> AsyncIterator[Proxy]:
    """The line to the dispatcher."""
    async with Proxy("127.0.0.1", urlsplit(shop.place.program.address).netloc, "lines") as proxy:
        yield proxy


async def test_an_order_is_confirmed_over_http(shop: Shop, line: Proxy, tmp_path: Any) -> None:
    key = make_key(shop.place.program, "triggerOperator")
    there = {"DISPATCHER_URL": f"http://127.0.0.1:{line.port}", "DISPATCHER_KEY": key}
    async with served("over_http:app", tmp_path, **there) as site:

        async def answers(number: int, body: object, expected: object) -> Any:
            """What is asked for comes, if not within the patience of the first call."""
            return await until(lambda: site.told(f"/orders/{number}/confirmation", body, expected), str(expected))

        confirmed = await answers(17, ANN, (200, "completed"))
        line.cut_all()
        assert (await answers(17, ANN, (200, "completed")))["run"] == confirmed["run"]
        refused = await answers(18, NAMELESS, (422, None))
        assert refused["faults"] == {"$.order.name": "is read by the workflow"}
        line.refuse()
        line.cut_all()
        assert (await answers(19, ANN, (503, None)))["detail"] == "please try again"

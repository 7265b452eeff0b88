"""The recipe with Django: its own commands, and its test client in a process of its own, on a real database."""

import asyncio
import json
import subprocess
import sys
from typing import Any

from tests.recipes.conftest import RECIPES, Shop
from tests.support.forks import ROOT
from tests.support.waits import until

PLACE = RECIPES / "django"
COMMAND_SECONDS_MAX = 60
# Calls the site, and prints what it answers.
CALL = """
import json, sys
import django
django.setup()
from django.test import Client
site = Client(headers={"host": "localhost"})
for method, path, body in json.loads(sys.argv[1]):
    answer = site.generic(method, path, json.dumps(body), content_type="application/json")
    said = answer.json() if answer.headers["Content-Type"] == "application/json" else None
    print(json.dumps([answer.status_code, said]))
"""


async def _run(shop: Shop, *command: str) -> str:
    environment = {
        "PYTHONPATH": f"{PLACE}:{ROOT}",
        "DJANGO_SETTINGS_MODULE": "shop.settings",
        "SHOP_DATABASE_URL": shop.url,
        "SHOP_SECRET_KEY": "of a test",
    }
    ended = await asyncio.to_thread(
        subprocess.run,
        [sys.executable, *command],
        env=environment,
        capture_output=True,
        text=True,
        timeout=COMMAND_SECONDS_MAX,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


async def _call(shop: Shop, *calls: tuple[str, str, object]) -> list[Any]:
    return [json.loads(line) for line in (await _run(shop, "-c", CALL, json.dumps(calls))).splitlines()]


async def test_an_order_and_its_confirmation_are_one_transaction(shop: Shop) -> None:
    await _run(shop, str(PLACE / "manage.py"), "check")
    assert "No changes detected" in await _run(shop, str(PLACE / "manage.py"), "makemigrations", "--check")
    await _run(shop, str(PLACE / "manage.py"), "migrate")
    ann = {"email": "ann@example.org", "name": "Ann"}
    placed, refused, nobody = await _call(
        shop, ("POST", "/orders", ann), ("POST", "/orders", {"email": "bob@example.org"}), ("GET", "/orders/99", None)
    )
    assert placed[0] == 201
    assert (refused[0], refused[1]["faults"]) == (422, {"$.order.name": "is read by the workflow"})
    assert nobody[0] == 404
    run = placed[1]["run"]
    orders = "SELECT array_agg(run) FROM shop.shop_order"
    assert await shop.place.runs.connection.fetchval(orders) == [run]
    await until(lambda: shop.place.runs.until_status(run, "completed"), "the order is confirmed")
    assert await _call(shop, ("GET", f"/orders/{placed[1]['id']}", None)) == [
        [200, {"id": placed[1]["id"], "confirmation": "completed"}]
    ]

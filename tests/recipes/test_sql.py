"""The recipe in plain SQL: the script as it stands, run by psql as the shop's role."""

from tests.recipes.conftest import RECIPES, Shop

STANDS = """SELECT o.email, r.status
              FROM shop.orders o LEFT JOIN dispatcher.runs r ON r.idempotency_key = 'order-' || o.id ORDER BY o.id"""


async def test_the_script_orders_confirms_and_takes_back(shop: Shop) -> None:
    told = await shop.psql(shop.url, RECIPES / "sql" / "shop.sql")
    assert told.returncode == 0, told.stderr
    lines = told.stdout.decode().splitlines()
    first = lines[0].split("|")
    order, run, _ = lines[1].split("|")
    assert first[1] == "f"
    assert "$.order.name" in lines[2]
    await shop.place.runs.until_status(int(first[0]), "completed")
    await shop.place.runs.until_status(int(run), "completed")
    rows = await shop.place.runs.connection.fetch(STANDS)
    assert [tuple(row) for row in rows] == [("ann@example.org", "completed"), ("bob@example.org", "completed")]
    reviews = [line for line in lines if line.endswith(("|pending", "|skipped"))]
    assert [line.rpartition("|")[2] for line in reviews] == ["pending", "skipped"]
    assert reviews[1].startswith(f"{order}|")

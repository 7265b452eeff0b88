"""Walking while rows come and go: from page to page one meets what is there all the time, and nothing twice."""

from collections.abc import AsyncIterator

import asyncpg
import pytest
from msgspec import Struct

from tests.support.caller import Caller, make_key
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.walking import walk

# In whichever order a database has them: those that come and go are among them, before and behind them.
STAY = ("B", "b", "B1", "b-1", "b.1", "c", "C", "m", "M2", "y")
COME = ("A", "a1", "bb", "BB", "l", "n", "z", "Z")
GONE = ("b0", "k", "x", "0")


class List(Struct, frozen=True):
    """A list: where it is, what a row is known by, and how one is made, comes to be in it, and goes."""

    path: str
    known_by: str
    make: str
    delete: str
    enter: str | None = None


_DELIVERY = """
    INSERT INTO dispatcher.deliveries (tenant_id, workspace_id, idempotency_key, channel, recipient, template,
                                       scheduled_for)
    VALUES ('walked', 'here', {}, 'sms', '+4917012345', '{{"body": "x"}}', '2040-01-01') RETURNING id
"""
_ADDRESS = (
    "INSERT INTO dispatcher.suppressions (tenant_id, kind, address) VALUES ('walked', 'other', $1) RETURNING address"
)
_HERE = "tenant_id = 'walked' AND workspace_id = 'here'"
LISTS = (
    List(
        "/contacts",
        "key",
        "SELECT $1::text FROM dispatcher.put_contact('walked', 'here', $1, '{}', 'put', NULL, 'x')",
        f"DELETE FROM dispatcher.contacts WHERE {_HERE} AND key = $1",
    ),
    List(
        "/webhooks",
        "name",
        "SELECT $1::text FROM dispatcher.create_webhook('walked', 'here', $1, 'https://x.example', '{run.failed}', "
        "true, 'whsec_' || repeat('a', 32), 99, 'x', 'x')",
        "SELECT dispatcher.delete_webhook('walked', 'here', $1, 'x', 'x')",
    ),
    List(
        "/keys?revoked=true",
        "name",
        "INSERT INTO dispatcher.api_keys (tenant_id, workspace_id, name, role) "
        "VALUES ('walked', 'here', $1, 'workerService') RETURNING name",
        f"DELETE FROM dispatcher.api_keys WHERE {_HERE} AND name = $1",
    ),
    List(
        "/schedules",
        "name",
        "INSERT INTO dispatcher.schedules (tenant_id, workspace_id, name, workflow, cron, time_zone, input) "
        "VALUES ('walked', 'here', $1, 'w', '0 8 * * *', 'UTC', '{}') RETURNING name",
        f"DELETE FROM dispatcher.schedules WHERE {_HERE} AND name = $1",
    ),
    List(
        "/campaigns",
        "name",
        "INSERT INTO dispatcher.campaigns (tenant_id, workspace_id, name, channel, template_name, audience, "
        "updated_by) VALUES ('walked', 'here', $1, 'sms', 'x', '{\"all\": true}', 'x') RETURNING name",
        f"DELETE FROM dispatcher.campaigns WHERE {_HERE} AND name = $1",
    ),
    List(
        "/suppressions",
        "address",
        _ADDRESS,
        "DELETE FROM dispatcher.suppressions WHERE tenant_id = 'walked' AND address = $1",
    ),
    List(
        "/topics",
        "address",
        "INSERT INTO dispatcher.topic_preferences (tenant_id, kind, address, topic, subscribed) "
        "VALUES ('walked', 'other', $1, 'news', false) RETURNING address",
        "DELETE FROM dispatcher.topic_preferences WHERE tenant_id = 'walked' AND address = $1",
    ),
    List(
        "/deliveries",
        "id",
        _DELIVERY.format("$1"),
        "DELETE FROM dispatcher.deliveries WHERE id = $1",
        "UPDATE dispatcher.delivery_state SET ready = false, status = 'failed', finished_at = now() WHERE id = $1",
    ),
    List(
        "/held",
        "id",
        _DELIVERY.format("'held ' || $1"),
        "UPDATE dispatcher.delivery_state SET held = false, held_at = NULL, status = 'failed', finished_at = now() "
        "WHERE id = $1",
        # All at one time.
        "UPDATE dispatcher.delivery_state SET ready = false, marked = true, held = true, token = 1, error = 'x', "
        "held_at = '2030-01-01' WHERE id = $1",
    ),
    List(
        "/erasures",
        "id",
        "INSERT INTO dispatcher.erasures (tenant_id, workspace_id, actor, reason, subjects, finished_at) "
        "VALUES ('walked', 'here', 'x', $1, '{}', now()) RETURNING id",
        "DELETE FROM dispatcher.erasures WHERE id = $1",
    ),
    List(
        "/pauses",
        "id",
        "SELECT pause_id FROM dispatcher.pause('template', $1, 'walked', 'here', 'x', 'x')",
        "UPDATE dispatcher.pauses SET ended_at = now(), ended_by = 'x' WHERE id = $1",
    ),
)


@pytest.fixture(scope="module")
def walker(serving: Program) -> Caller:
    """An administrator of a workspace in which there is nothing else."""
    return Caller(serving, make_key(serving, tenant="walked", workspace="here"))


@pytest.fixture
async def connection(serving: Program) -> AsyncIterator[Connection]:
    """What comes and goes, comes and goes by this."""
    connection = await asyncpg.connect(serving.url)
    try:
        yield connection
    finally:
        await connection.close()


async def _make(connection: Connection, one: List, name: str) -> str | int:
    made: str | int = await connection.fetchval(one.make, name)
    if one.enter is not None:
        await connection.execute(one.enter, made)
    return made


@pytest.mark.parametrize("limit", [1, 3])
@pytest.mark.parametrize("one", LISTS, ids=lambda one: one.path)
async def test_rows_that_stay_are_listed_once_while_others_change(
    one: List, limit: int, walker: Caller, connection: Connection
) -> None:
    tag = f".{limit}"
    made = {name: await _make(connection, one, name + tag) for name in (*STAY[:5], *GONE, *STAY[5:])}
    stay, come, gone = [made[name] for name in STAY], list(COME), [made[name] for name in GONE]
    seen, query = list[str | int](), f"limit={limit}"
    join = "&" if "?" in one.path else "?"
    while len(seen) == len(set(seen)):
        answer = walker.get(f"{one.path}{join}{query}").json
        (rows,) = (rows for name, rows in answer.items() if name != "next_cursor")
        seen += [row[one.known_by] for row in rows]
        if answer["next_cursor"] is None:
            break
        query = f"limit={limit}&cursor={answer['next_cursor']}"
        # The very one that the cursor names, where it is one of these; and one before it or behind it.
        for which in (rows[-1][one.known_by], *gone[-1:]):
            if which in made.values():
                await connection.execute(one.delete, which)
        gone = gone[:-1]
        if come:
            await _make(connection, one, come.pop() + tag)
    assert len(seen) == len(set(seen))
    assert set(stay) <= set(seen)


async def test_the_longest_address_has_a_next_page(walker: Caller, connection: Connection) -> None:
    # As a cursor has it, each of these is six characters long.
    for end in "ab":
        await connection.execute(_ADDRESS, "\x01" * 499 + end)
    found = [row["address"] for row in walk(walker, "/suppressions", 1)]
    assert found[:2] == ["\x01" * 499 + "a", "\x01" * 499 + "b"]

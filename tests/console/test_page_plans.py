"""What pages ask the database: with many rows in each table that grows, no statement reads one without an index."""

from collections.abc import AsyncIterator

import asyncpg
import pytest

from bench.cases.console import loading
from bench.cases.console.pages import SEARCHES
from dispatcher.console.page import discovered
from tests.console import furniture
from tests.console.inside import Asked, Inside, inside
from tests.support.databases import TEMPLATE, new_database

DELIVERIES = 30_000
# Tables with so many rows grow with the work; the others are lists that people have written.
LARGE_ROWS = 1_000
# Searches look at 5,000 rows, and at deliveries once more for each policy.
NODE_ROWS_MAX, READ_MAX = 5_100, 16_000
_LARGE = (
    "SELECT relname FROM pg_class WHERE relkind = 'r' AND relnamespace = 'dispatcher'::regnamespace AND reltuples > $1"
)
# Pages of what there is much of, beside those of the furniture.
_OF_MUCH = """
    SELECT format('/deliveries/%s', (SELECT min(id) FROM dispatcher.deliveries)),
           format('/runs/%s', (SELECT min(id) FROM dispatcher.runs WHERE workflow = 'bench')),
           format('/enrolments/%s', (SELECT min(id) FROM dispatcher.sequence_enrollments)),
           format('/campaign-runs/%s', r.id), format('/campaign-runs/%s/jobs', r.id),
           format('/campaign-runs/%s/deliveries', r.id), format('/campaign-runs/%s/log', r.id),
           '/sequences/drip', '/sequences/drip/enrolments', '/campaigns/everybody', '/campaigns/everybody/plan',
           '/workflows/bench', '/templates/bench', '/contacts/c7', '/contacts?company=x', '/contacts?tag=x'
      FROM dispatcher.campaign_runs r WHERE r.campaign = 'everybody'
"""


@pytest.fixture(scope="module")
async def large(template: str) -> AsyncIterator[tuple[str, dict[str, str], set[str]]]:
    """A database with much of everything that grows; the paths of its pages; and its large tables."""
    async with new_database(template, TEMPLATE) as url:
        connection = await asyncpg.connect(url)
        await loading.load(connection, DELIVERIES)
        furnished = await furniture.furnish(connection, furniture.PLAIN)
        paths = {
            page.path: furnished.path(page.path).rstrip("/")
            for page in discovered()
            if page.act is None and not page.raw
        }
        of_much = list(await connection.fetchrow(_OF_MUCH) or ())
        searches = [path.removeprefix("/console") for path in SEARCHES]
        await connection.execute("ANALYZE")
        names = {row["relname"] for row in await connection.fetch(_LARGE, LARGE_ROWS)}
        await connection.close()
        yield url, paths | {path: path for path in (*of_much, *searches)}, names


@pytest.fixture(scope="module")
async def visitor(large: tuple[str, dict[str, str], set[str]]) -> AsyncIterator[Inside]:
    """An administrator of that workspace."""
    with pytest.MonkeyPatch.context() as patch:
        async with inside(large[0], patch) as found:
            yield found


def _fault(one: Asked, large: set[str]) -> str:
    """What is wrong with a statement, or nothing."""
    # It counts an audience of everybody, and hashes all suppressions: by an index it took 15 s.
    if "dispatcher.plan_campaign(" in one.query:
        return ""
    if found := one.without_index & large:
        return f"reads {sorted(found)} without an index: {one.query}"
    rows = max((number for _, _, number in one.nodes), default=0)
    if rows > NODE_ROWS_MAX or max(one.read.values(), default=0) > READ_MAX:
        return f"reads too much, {one.read} by {one.nodes}: {one.query}"
    return ""


async def test_no_statement_of_a_page_reads_a_large_table_without_an_index(
    large: tuple[str, dict[str, str], set[str]], visitor: Inside
) -> None:
    _, paths, names = large
    assert {"deliveries", "delivery_state", "runs", "contacts", "contact_addresses"} <= names
    wrong = []
    for path in paths.values():
        found = [_fault(one, names) for one in await visitor.statements(path)]
        wrong += [f"{path} {words}" for words in found if words]
    assert not wrong, "\n\n".join(wrong)

"""The tables of a move: none is forgotten, and each leads to its tenant as row security says."""

import re

from dispatcher.features.cells.moving.rows.tables import ELSEWHERE, FAMILIES, Table, tables
from tests.support.scene import Connection

TABLES = """SELECT relname FROM pg_class
             WHERE relnamespace = 'dispatcher'::regnamespace AND relkind IN ('r', 'p')"""
POLICIES = "SELECT tablename, qual FROM pg_policies WHERE schemaname = 'dispatcher' AND policyname = 'tenant'"
# `(SELECT p.id FROM parent p WHERE (p.id = child.column)) IS NOT NULL`
LEADS = re.compile(r"FROM dispatcher\.(\w+) p\s+WHERE \(p\.id = \w+\.(\w+)\)\) IS NOT NULL")
WITH_TENANT = """SELECT c.table_name FROM information_schema.columns c
                  JOIN information_schema.tables t USING (table_schema, table_name)
                  WHERE table_schema = 'dispatcher' AND column_name = 'tenant_id' AND t.table_type = 'BASE TABLE'"""
# Parts of deliveries that have a tenant as well, and no policy leads them.
BOTH = {"captured_messages", "contact_addresses"}
BY_TABLE = {table.name: table for table in tables()}


async def _names(connection: Connection, query: str) -> set[str]:
    return {row[0] for row in await connection.fetch(query)}


async def test_every_table_is_a_tenants_or_named_with_the_reason_why_not(connection: Connection) -> None:
    of_schema = await _names(connection, TABLES)
    named = [table.name for table in tables()]
    assert len(named) == len(set(named))
    assert set(named).isdisjoint(ELSEWHERE)
    assert of_schema == set(named) | set(ELSEWHERE)
    assert all(ELSEWHERE.values())


async def test_rows_lead_to_their_tenant_as_row_security_says(connection: Connection) -> None:
    policies = await connection.fetch(POLICIES)
    leads = {row["tablename"]: match.groups() for row in policies if (match := LEADS.search(row["qual"]))}
    assert leads.keys() <= BY_TABLE.keys()
    assert {name: (BY_TABLE[name].parent, BY_TABLE[name].lead) for name in leads} == leads


async def test_a_table_that_has_a_tenant_is_copied_by_it(connection: Connection) -> None:
    of_tenants = await _names(connection, WITH_TENANT)
    assert of_tenants <= BY_TABLE.keys() | ELSEWHERE.keys()
    by_tenant = {name for name, table in BY_TABLE.items() if _names_its_tenant(table)}
    # By what they say.
    assert by_tenant - of_tenants == {"schedule_actions", "waiting_receipts"}
    assert of_tenants & BY_TABLE.keys() - by_tenant == BOTH


def _names_its_tenant(table: Table) -> bool:
    return table.is_root


def test_what_leads_to_another_table_comes_behind_it() -> None:
    order = list(BY_TABLE)
    for table in BY_TABLE.values():
        assert not table.parent or order.index(table.parent) <= order.index(table.name), table.name


def test_what_drives_a_dispatcher_is_not_copied_early() -> None:
    """Rows that some worker of the target would take up by themselves."""
    early = {table.name for family in FAMILIES if family.early for table in family.tables if table.done == "true"}
    assert early == {
        *("contacts", "contact_addresses", "events", "event_decisions"),
        *("suppressions", "suppression_log", "topic_preferences", "erased_suppressions", "objects"),
    }

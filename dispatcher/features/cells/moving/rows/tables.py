"""The tables of a tenant: how rows of each lead to it, and what is copied before the tenant stands still.

Every table of the schema is named here once, in a family or in ELSEWHERE; a table that is named nowhere refuses the
move. A family is copied together, in pages of ids. In statements `t` is the table, {d} the row that its rows lead to,
and `s` the state of a delivery.
"""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from dispatcher.base.schema_name import NAME

# Of ids: a page of a large tenant has as many rows, which one COPY brings in about a second.
PAGE_BITS = 16


class Table(Struct, frozen=True):
    """A table of a tenant: `lead` is the column that leads to `parent`, and whose pages are copied."""

    name: str
    lead: str = ""
    parent: str = ""
    # The condition of rows that do not change by themselves: the others are copied when the tenant stands still.
    done: str = "true"
    # The condition of a tenant's rows, where tenant_id does not say it; {tenant} is the tenant as a literal.
    where: str = ""
    # The condition of rows that are copied; the others are deleted with the rest.
    only: str = "true"
    # What is copied in place of a column.
    instead: Mapping[str, str] = {}

    @property
    def full_name(self) -> str:
        return f"{NAME}.{self.name}"

    @property
    def is_root(self) -> bool:
        """Whether its own rows name the tenant."""
        return self.parent in ("", self.name)

    @property
    def above(self) -> str:
        """The alias of the rows that name the tenant."""
        return "t" if self.is_root else "d"

    @property
    def is_done(self) -> str:
        """Whether a row does not change by itself, as an expression."""
        return f"({self.done.replace('{d}', self.above)}) IS TRUE"

    @property
    def page(self) -> str:
        """The page of a row, as an expression."""
        return f"t.{self.lead} >> {PAGE_BITS}" if self.lead else "0::bigint"


class Family(Struct, frozen=True):
    """Tables that are copied together: `early` ones before the tenant stands still, as far as their rows are done."""

    tables: Sequence[Table]
    early: bool = False


_ENDED = "coalesce(s.status <> 'queued', true)"
# Pauses of the tenant are copied. What others have parked is ready over there, and parked again where a pause applies.
_OWN_PAUSES = (
    "SELECT o.id FROM dispatcher.pauses o WHERE o.ended_at IS NULL "
    "AND (o.tenant_id = {tenant} OR o.scope = 'tenant' AND o.name = {tenant})"
)
# A subquery of its own is hashed, however empty the planner takes its tables for.
_STAY_PARKED = f"SELECT k.delivery_id FROM dispatcher.parked k WHERE k.pause_id IN ({_OWN_PAUSES})"  # noqa: S608 - our own text


def _of_deliveries(name: str) -> Table:
    return Table(name, "delivery_id", "deliveries", _ENDED)


def _alone(name: str, lead: str = "", parent: str = "", **more: object) -> Family:
    """A table that is copied when the tenant stands still."""
    return Family((Table(name, lead, parent, **more),))  # type: ignore[arg-type]  # the fields of Table


FAMILIES: Sequence[Family] = (
    Family(
        (
            Table("deliveries", "id", "deliveries", _ENDED),
            Table(
                "delivery_state",
                "id",
                "deliveries",
                "t.status <> 'queued'",
                instead={
                    "ready": "t.ready OR (t.status = 'queued' AND NOT t.held AND t.token IS NULL "
                    f"AND t.id NOT IN ({_STAY_PARKED}))"
                },
            ),
            _of_deliveries("delivery_attempts"),
            _of_deliveries("delivery_evidence"),
            _of_deliveries("delivery_answers"),
            _of_deliveries("delivery_receipts"),
            _of_deliveries("dead_deliveries"),
            _of_deliveries("moved_deliveries"),
            _of_deliveries("reopened_ends"),
            _of_deliveries("operator_actions"),
            _of_deliveries("captured_messages"),
            Table(
                "parked",
                "delivery_id",
                "deliveries",
                "false",
                only=f"t.pause_id IN ({_OWN_PAUSES})",
            ),
        ),
        early=True,
    ),
    Family(
        (
            Table("runs", "id", "runs", "{d}.finished_at IS NOT NULL"),
            Table("run_entries", "run_id", "runs", "{d}.finished_at IS NOT NULL"),
        ),
        early=True,
    ),
    Family((Table("contacts", "id", "contacts"), Table("contact_addresses", "contact_id", "contacts")), early=True),
    Family((Table("events", "id", "events"), Table("event_decisions", "event_id", "events")), early=True),
    Family((Table("suppression_log", "id", "suppression_log"),), early=True),
    *(
        Family((Table(name),), early=True)
        for name in ("suppressions", "topic_preferences", "erased_suppressions", "objects")
    ),
    _alone("workspace_settings"),
    _alone("templates"),
    _alone("template_versions", "template_id", "templates"),
    _alone("template_publications", "template_id", "templates"),
    _alone("workflows"),
    _alone("plan_versions", "workflow_id", "workflows"),
    _alone("workflow_actions", "workflow_id", "workflows"),
    _alone("sequences"),
    _alone("sequence_steps", "sequence_id", "sequences"),
    _alone("signals", "run_id", "runs"),
    _alone("wakes", "run_id", "runs"),
    _alone("digests", "run_id", "runs"),
    _alone("digest_items", "run_id", "runs"),
    _alone("campaigns"),
    _alone("campaign_actions"),
    # Its transactions are another server's: all contacts count as changed since then, which costs a look-up each.
    _alone("campaign_runs", instead={"frozen_at": "'0'::xid8"}),
    _alone("campaign_run_reasons", "run_id", "campaign_runs"),
    _alone("campaign_events", "run_id", "campaign_runs"),
    _alone("job_queue"),
    _alone("job_results", "job_id", "job_queue"),
    _alone("schedules"),
    # By what it said: a schedule that was deleted has no row any more.
    _alone("schedule_actions", where="t.said ->> 'tenant_id' = {tenant}"),
    _alone("event_triggers"),
    _alone("rules"),
    _alone("rule_steps", "rule_id", "rules"),
    _alone("rule_actions"),
    _alone("caps"),
    _alone("cap_counters", "cap_id", "caps"),
    _alone("cap_actions"),
    _alone("quiet_hours"),
    _alone("quiet_hours_ended"),
    _alone("quiet_hours_actions"),
    _alone("suppression_work"),
    _alone("erasures"),
    _alone("webhook_endpoints"),
    _alone("webhook_secrets", "endpoint_id", "webhook_endpoints"),
    _alone("webhook_actions", "endpoint_id", "webhook_endpoints"),
    _alone("webhook_events"),
    _alone("api_keys"),
    _alone("api_secrets", "key_id", "api_keys"),
    _alone("api_key_actions", "key_id", "api_keys"),
    _alone("api_answers"),
    _alone("waiting_receipts", where="t.receipt #>> '{key,0}' = {tenant}"),
    _alone(
        "pauses", where="(t.tenant_id = {tenant} OR t.scope = 'tenant' AND t.name = {tenant}) AND t.scope <> 'moved'"
    ),
)

# Tables whose rows are not copied, each with the reason.
ELSEWHERE: Mapping[str, str] = {
    "own_cell": "which cell this database is",
    "tenant_placements": "where each cell sees its tenants",
    "tenant_moves": "the moves of this cell's tenants",
    "clusters": "where this database was last seen",
    "schema_migrations": "the schema of this database",
    "instances": "the dispatchers of this cell",
    "claims": "batches of those dispatchers: none has a delivery of a tenant that stands still",
    "walks": "batches of runs of those dispatchers",
    "receipt_events": "ids of what providers have told this cell, without a tenant; kept for a day",
    "throughput": "what the dispatchers of this cell have sent in the last two hours",
}


def tables() -> Iterator[Table]:
    """Return all tables that are copied."""
    for family in FAMILIES:
        yield from family.tables


def filled(expression: str, tenant: str) -> str:
    """Return an expression with the tenant as a literal."""
    return expression.replace("{tenant}", "'" + tenant.replace("'", "''") + "'")


def rows_of(table: Table, tenant: str, *, all_rows: bool = False) -> str:
    """Return the FROM and WHERE of a tenant's rows in a table: of those that are copied, or of all."""
    rows = f"FROM {table.full_name} t"
    if not table.is_root:
        rows += f" JOIN {NAME}.{table.parent} d ON d.id = t.{table.lead}"
    if table.done == _ENDED:
        rows += f" LEFT JOIN {NAME}.delivery_state s ON s.id = t.{table.lead}"
    rows += f" WHERE {table.where or f'{table.above}.tenant_id = {{tenant}}'}"
    return filled(rows if all_rows or table.only == "true" else f"{rows} AND {table.only}", tenant)

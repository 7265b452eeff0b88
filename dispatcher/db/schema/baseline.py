"""The schema as a new database gets it: one file per room, each table and function defined once, in reading order."""

from importlib import resources

# What a file uses in a table, a view, a type or the body of an SQL function stands in one before it.
FILES = (
    "db/schema/row_security",
    "db/schema/refusals",
    "engine/schema/outbox",
    "engine/schema/job_results",
    "engine/schema/engine",
    "engine/schema/operators",
    "engine/schema/outbox_view",
    "features/objects/schema",
    "features/templates/schema",
    "features/suppressions/schema",
    "features/workflows/schema",
    "features/runs/schema/runs",
    "features/runs/schema/digests",
    "features/runs/schema/views",
    "features/runs/schema/triggers",
    "features/runs/schema/actions",
    "features/deliveries/schema",
    "features/dead_letters/schema",
    "features/pauses/schema",
    "features/schedules/schema",
    "engine/schema/restores",
    "features/receipts/schema",
    "features/keys/schema",
    "features/webhooks/schema",
    "features/contacts/schema",
    "features/persons/schema",
    "features/contacts/audience",
    "features/sequences/schema/tables",
    "features/sequences/schema/drafts",
    "features/sequences/schema/enrol",
    "features/sequences/schema/operate",
    "features/sequences/schema/move",
    "features/sequences/schema/views",
    "features/campaigns/schema/tables",
    "features/campaigns/schema/deploy",
    "features/campaigns/schema/expand",
    "features/campaigns/schema/closing",
    "features/campaigns/schema/operate",
    "features/campaigns/schema/actions",
    "features/campaigns/schema/announcing",
    "features/campaigns/schema/restores",
    "features/campaigns/schema/erasure",
    "features/campaigns/schema/views",
    "features/dead_letters/jobs",
    "features/campaigns/schema/definitions",
    "features/campaigns/schema/check",
    "features/deliveries/older_views",
)


def text() -> str:
    package = resources.files("dispatcher")
    return "\n".join(package.joinpath(f"{file}.sql").read_text(encoding="utf-8") for file in FILES)

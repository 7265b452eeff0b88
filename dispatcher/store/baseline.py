"""The schema as a new database gets it: one file per room, each table and function defined once, in reading order."""

from importlib import resources

# What a file uses in a table, a view, a type or the body of an SQL function stands in one before it.
ROOMS = (
    "row_security",
    "calls",
    "outbox",
    "engine",
    "operators",
    "outbox_view",
    "objects",
    "templates",
    "suppressions",
    "workflows",
    "runs",
    "digests",
    "run_views",
    "triggers",
    "run_actions",
    "enqueue",
    "dead_letters",
    "pauses",
    "schedules",
    "restores",
    "receipts",
    "keys",
    "webhooks",
    "contacts",
    "erasures",
    "older_views",
)


def text() -> str:
    """Return all files, in order, as one script."""
    folder = resources.files("dispatcher.store").joinpath("schema")
    return "\n".join(folder.joinpath(f"{room}.sql").read_text(encoding="utf-8") for room in ROOMS)

"""The navigation: every section, its group, the right that it takes, and its key after `g`."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct

from dispatcher.http.roles import Right, Role, may


class Section(Struct, frozen=True):
    """An entry of the navigation. `at` is the first part of its paths; `key` opens it after `g`."""

    name: str
    at: str
    right: Right | None
    key: str = ""


GROUPS: Sequence[tuple[str, Sequence[Section]]] = (
    ("", (Section("Overview", "", Right.LOGS, "o"), Section("Audit", "audit", Right.AUDIT, "a"))),
    (
        "Messages",
        (
            Section("Deliveries", "deliveries", Right.DELIVERIES, "d"),
            Section("Held and dead", "held", Right.HELD, "h"),
            Section("Inbox", "inbox", Right.DELIVERIES, "i"),
            Section("Templates", "templates", Right.TEMPLATES, "t"),
        ),
    ),
    (
        "Sources",
        (
            Section("Workflows", "workflows", Right.WORKFLOWS, "w"),
            Section("Runs", "runs", Right.LOGS, "r"),
            Section("Campaigns", "campaigns", Right.CAMPAIGNS, "c"),
            Section("Sequences", "sequences", Right.SEQUENCES, "s"),
            Section("Rules", "rules", Right.RULES, "e"),
        ),
    ),
    (
        "People",
        (
            Section("Contacts", "contacts", Right.CONTACTS, "p"),
            Section("Suppressions", "suppressions", Right.SUPPRESSIONS),
        ),
    ),
    (
        "System",
        (
            Section("Pauses", "pauses", Right.PAUSES),
            Section("Schedules", "schedules", Right.SCHEDULES),
            Section("Webhooks", "webhooks", Right.WEBHOOKS),
            Section("Keys", "keys", Right.KEYS),
            Section("Configuration", "configuration", Right.KEYS),
            Section("Cells", "cells", Right.KEYS),
        ),
    ),
)


def visible(role: Role, served: Mapping[str, object]) -> Iterator[tuple[str, Sequence[Section]]]:
    """Yield the groups of what a role may see and what has a page: `served` has the paths below /console."""
    for name, sections in GROUPS:
        seen = [one for one in sections if f"/{one.at}" in served and (one.right is None or may(role, one.right))]
        if seen:
            yield name, seen

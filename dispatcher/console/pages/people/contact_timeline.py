"""The timeline of a contact: each message and why it was sent, and what was said about its addresses."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from dispatcher.console.rendering import MISSING, day, state

# What the log of an address says, in words.
_SAID = {
    "suppress": ("failed", "Suppressed"),
    "release": ("sent", "Removed from the suppressions"),
    "unsubscribe": ("skipped", "Unsubscribed"),
    "subscribe": ("sent", "Subscribed"),
}
# Endings that the glyph says already.
_UNSAID = ("sent", "called", "posted")


class Moment(Struct, frozen=True):
    """An entry. `to` is the id of its delivery; `then` what its provider and its recipient said of it."""

    at: datetime
    state: str
    title: str
    why: str
    address: str = ""
    note: str = ""
    then: str = ""
    to: int | None = None
    # Where it is another one than that of the entry before.
    day: str = ""


def moments(found: Sequence[tuple[str, Mapping[str, Any]]]) -> list[Moment]:
    """Return entries of timelines, each with its address, the newest first."""
    made = [_message(row) if row["kind"] == "delivery" else _said(address, row) for address, row in found]
    made.sort(key=lambda one: one.at, reverse=True)
    days = ["", *(day(one.at) for one in made)]
    return [
        replace(one, day="" if day(one.at) == before else day(one.at)) for one, before in zip(made, days, strict=False)
    ]


def _message(row: Mapping[str, Any]) -> Moment:
    life = str(row["life"])
    said = str(row.get("subject") or row["template_name"] or row["idempotency_key"])
    moved = row.get("moved")
    notes = [
        "" if life in _UNSAID else f"{life}: {row['error']}" if row["error"] else life,
        f"moved: {moved['reason']}" if moved else "",
        *(f"{one['action']} by {one['actor']}: {one['reason']}" for one in row["actions"]),
    ]
    return Moment(
        datetime.fromisoformat(row["at"]),
        state(life),
        f"{row['channel']}: {said}",
        str(row["reason"]),
        str(row["recipient"] or ""),
        "; ".join(one for one in notes if one),
        ", ".join(dict.fromkeys(str(one["kind"]) for one in row["receipts"])),
        int(row["id"]),
    )


def _said(address: str, row: Mapping[str, Any]) -> Moment:
    glyph, words = _SAID.get(str(row["kind"]), ("none", str(row["kind"]).capitalize()))
    what = " ".join(str(row[name]) for name in ("channel", "source", "topic") if row.get(name))
    title = f"{words}: {what}" if what else words
    return Moment(
        datetime.fromisoformat(row["at"]), glyph, title, f"by {row['actor']}: {row['reason'] or MISSING}", address
    )

"""Events: what both clients tell and are answered, and the caller's own code as a fallback."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
from msgspec import Struct

from dispatcher.client.encoding import json_of

# Of one call: as many as the server takes.
EVENTS_MAX = 1_000
ERROR_CHARACTERS_MAX = 1_000
CALLER = "caller"


class Event(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An event. A `message_id` of a `source` is handled once: the repeat answers the first answer, as a duplicate."""

    trigger: str
    variables: Mapping[str, Any] | None = None
    lead: Mapping[str, Any] | None = None
    partner: Mapping[str, Any] | None = None
    agent: Mapping[str, Any] | None = None
    event_at: datetime | None = None
    message_id: str | None = None
    source: str | None = None


class Decision(Struct, frozen=True, kw_only=True):
    """What was decided for a channel and an audience, and why.

    `decision` is `scheduled`, `skipped`, `suppressed`, `fallback`, `none` or `duplicate`; of a duplicate,
    `first_decision` is the first answer. `fallback` is `message` where the built-in one is written, and `caller` where
    the caller's own code is to run; `outcome` is what became of that: `done`, `failed`, or None.
    """

    event_id: int
    channel: str
    audience: str
    decision: str
    reason: str
    fallback: str | None
    first_decision: str
    outcome: str | None
    steps: list[dict[str, Any]]
    delivery_ids: list[int]

    @property
    def falls_back(self) -> bool:
        """Whether the caller's own code is to run now."""
        return self.decision == "fallback" and self.fallback == CALLER


# What runs in place of a rule, for each channel and audience.
Fallbacks = Mapping[tuple[str, str], Callable[[Decision], Awaitable[None]]]
Note = Callable[[Decision, str, str | None], Awaitable[None]]


def encoded_events(events: Sequence[Event]) -> bytes:
    """Return events as a JSON list. Raises Refused."""
    return b"[" + b",".join(json_of(one, f"$.events[{place}]") for place, one in enumerate(events)) + b"]"


async def run_fallbacks(decisions: Sequence[Decision], fallbacks: Fallbacks, note: Note) -> list[Decision]:
    """Run the caller's own code where it is to run, note what became of it, and return the decisions with that.

    One that raises has failed: the others run all the same.
    """
    done: list[Decision] = []
    for one in decisions:
        function = fallbacks.get((one.channel, one.audience)) if one.falls_back else None
        if function is None:
            done.append(one)
            continue
        error: str | None = None
        try:
            await function(one)
        except Exception as fault:
            error = f"{type(fault).__name__}: {fault}"[:ERROR_CHARACTERS_MAX]
        outcome = "done" if error is None else "failed"
        await note(one, outcome, error)
        done.append(msgspec.structs.replace(one, outcome=outcome))
    return done

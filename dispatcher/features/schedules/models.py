"""Models of schedules: queries, definitions and answers."""

from datetime import datetime
from typing import Annotated, Literal

from msgspec import Meta, Raw, Struct, field, structs

from dispatcher.base.values.time_zones import ZONE_MAX
from dispatcher.features.schedules.rules import EXPRESSION_MAX
from dispatcher.http.models import BEGUN, Asked, Json, Limit, LongCursor, ShortText, page_model

TICKS_MAX = 1_000


class ScheduleQuery(Asked, frozen=True):
    """A filter and page of schedules."""

    workflow: Annotated[ShortText | None, Meta(description="Those that trigger this one.")] = None
    active: Annotated[bool | None, Meta(description="Those that tick, or those that rest.")] = None
    after: Annotated[ShortText | None, Meta(description="Only those whose names come after this one.")] = None
    cursor: LongCursor | None = None
    limit: Limit = 50


class TickQuery(Asked, frozen=True):
    """The number of ticks that are wanted."""

    count: Annotated[int, Meta(ge=1, le=TICKS_MAX, description="How many.")] = 5


class NewSchedule(Asked, frozen=True):
    """A schedule: a workflow, its times, and the input of its runs."""

    workflow: Annotated[ShortText, Meta(description="Which workflow it triggers.")]
    cron: Annotated[
        str,
        Meta(min_length=1, max_length=EXPRESSION_MAX, description="Minute, hour, day, month, weekday; or @daily."),
    ]
    time_zone: Annotated[str, Meta(min_length=1, max_length=ZONE_MAX, description="By the clocks of which zone.")] = (
        "UTC"
    )
    input: Annotated[Json, Meta(description="What each run is given; the tick is added as scheduled_for.")] = field(
        default_factory=dict
    )


class Activate(Asked, frozen=True):
    """Whether the missed tick runs when a schedule is activated."""

    skip_missed: Annotated[bool, Meta(description="Go on from now; else the latest tick that it missed runs.")] = False


class Schedule(Struct, frozen=True, kw_only=True):
    """A schedule in short, with the result of its last tick."""

    name: str
    workflow: str
    cron: str
    time_zone: str
    active: bool
    next_at: datetime | None
    last_tick: datetime | None
    last_run: int | None
    refusal: Annotated[str | None, Meta(description="Why the last tick has no run.")]
    missed: int


Schedules = page_model("Schedules", "schedules", Schedule, "A page, by name.")


class StoredSchedule(Schedule, frozen=True, kw_only=True):
    """A schedule with all of its fields."""

    id: int
    # As it was written: reading it would round its numbers.
    input: Raw
    version: int
    created_at: datetime
    would_be_refused: Annotated[str | None, Meta(description="Why a tick would have no run now.")]


class ScheduleAction(Struct, frozen=True, kw_only=True):
    """An action on a schedule, with its definition from then on."""

    at: datetime
    actor: str
    action: str
    version: int
    workflow: str
    cron: str
    time_zone: str


class WholeSchedule(StoredSchedule, frozen=True, kw_only=True):
    """A schedule with all of its fields and its last actions."""

    actions: list[ScheduleAction]


class SavedSchedule(StoredSchedule, frozen=True, kw_only=True):
    """A schedule as it stands now."""

    answer: Literal["created", "changed", "same"]


class SwitchedSchedule(Struct, frozen=True):
    """The result of an action: done, same or deleted."""

    name: str
    answer: str


class Tick(Struct, frozen=True):
    """A time at which it ticks, and what the clocks of its zone show then."""

    tick: datetime
    local: datetime


class Ticks(Struct, frozen=True):
    """The next ones, whether it is active or not."""

    ticks: list[Tick]


_SCHEDULE = Schedule(
    name="morning",
    workflow="digest",
    cron="0 8 * * *",
    time_zone="Europe/Berlin",
    active=True,
    next_at=BEGUN,
    last_tick=None,
    last_run=None,
    refusal=None,
    missed=0,
)
_STORED = structs.asdict(_SCHEDULE) | {
    "id": 3,
    "input": Raw(b'{"shop":17}'),
    "version": 1,
    "created_at": BEGUN,
    "would_be_refused": None,
}
SCHEDULES = Schedules([_SCHEDULE], next_cursor=None)
_ACTION = ScheduleAction(
    at=BEGUN,
    actor="key ann",
    action="put",
    version=1,
    workflow="digest",
    cron="0 8 * * *",
    time_zone="Europe/Berlin",
)
WHOLE = WholeSchedule(**_STORED, actions=[_ACTION])
SAVED = SavedSchedule(**_STORED, answer="created")
SWITCHED = SwitchedSchedule("morning", "done")
TICKS = Ticks([Tick(BEGUN, BEGUN)])

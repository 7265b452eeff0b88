"""The figures of the overview: pure functions from what the endpoint answers to what the page shows."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from dispatcher.console.rendering import MISSING, capped, count, duration, plural
from dispatcher.console.rendering import rate as rate_text
from dispatcher.features.overview.models import COUNT_MAX, LaneBacklog, Minute, Overview, Replica
from dispatcher.http.roles import Right, Role, may

LANES = ("transactional", "normal", "bulk")
MINUTES = 60
# A lane that is not bulk is late from then on.
LATE_SECONDS = 60.0
# Of two beats that were missed; the lease says when it is fenced.
QUIET_SHARE = 0.5
_CLASSES = dict(zip(LANES, ("l1", "l2", "l3"), strict=True))

Rates = Mapping[tuple[str, str], float]


class Need(Struct, frozen=True):
    """Something that needs somebody. `links` are (words, path, is a form)."""

    state: str
    title: str
    text: str
    links: Sequence[tuple[str, str, bool]] = ()


class Channel(Struct, frozen=True, kw_only=True):
    """A row of the table of channels. Without a system `backlog` is empty."""

    name: str
    says: str
    state: str
    spark: Sequence[float]
    rate: float
    backlog: Sequence[int]
    oldest_seconds: float
    held: int
    failed: int


class Figures(Struct, frozen=True, kw_only=True):
    """Everything that the page shows."""

    at: datetime
    needs: Sequence[Need]
    vitals: Sequence[tuple[str, str, str, str]]
    layers: Sequence[tuple[str, Sequence[float]]]
    top: float
    starts: Sequence[int]
    legend: Sequence[tuple[str, str, str]]
    channels: Sequence[Channel]
    most_due: int
    ended: Mapping[str, int]
    replicas: Sequence[tuple[Replica, str]]
    lacks: Sequence[str]
    is_system: bool
    has_ended: bool


def figures(found: Overview, rates: Rates | None, role: Role) -> Figures:
    """Return the figures. `rates` are successes a second by channel and lane; None: of the last whole minute."""
    minutes = found.system.throughput if found.system else found.throughput
    backlog = found.system.backlog if found.system else []
    replicas = found.system.replicas if found.system else []
    starts = _starts(found.at)
    rates = _minute_rates(minutes, starts) if rates is None else rates
    layers = _layers(minutes, starts, found.at)
    ended = Counter[str]()
    for one in minutes:
        if one.at >= starts[0]:
            ended[one.outcome] += one.deliveries
    channels = _channels(found, minutes, backlog, rates, starts)
    return Figures(
        at=found.at,
        needs=list(_needs(found, backlog, replicas, role)),
        vitals=list(_vitals(found, backlog, rates, ended)),
        layers=layers,
        top=_top(layers),
        starts=starts,
        legend=_legend(rates),
        channels=channels,
        most_due=max((sum(one.backlog) for one in channels), default=0),
        ended={name: ended[name] for name in ("succeeded", "skipped", "failed")},
        replicas=[(one, _health(one)) for one in replicas],
        lacks=found.system.lacks if found.system else [],
        is_system=found.system is not None,
        has_ended=bool(ended),
    )


def _starts(at: datetime) -> list[int]:
    last = int(at.timestamp()) // 60 * 60
    return [last - 60 * back for back in range(MINUTES - 1, -1, -1)]


def _minute_rates(minutes: Iterable[Minute], starts: Sequence[int]) -> Rates:
    found = Counter[tuple[str, str]]()
    for one in minutes:
        if one.at == starts[-2] and one.outcome == "succeeded":
            found[one.channel, one.lane] += one.deliveries
    return {key: number / 60 for key, number in found.items()}


def _layers(minutes: Iterable[Minute], starts: Sequence[int], at: datetime) -> list[tuple[str, Sequence[float]]]:
    """Return the columns of the chart: successes by lane, what became held, and what failed; a second."""
    place = {start: number for number, start in enumerate(starts)}
    made = {name: [0.0] * len(starts) for name in ("l3", "l2", "l1", "held", "failed")}
    now = max(at.timestamp() - starts[-1], 1.0)
    for one in minutes:
        name = _CLASSES[one.lane] if one.outcome == "succeeded" else one.outcome
        if name in made and one.at in place:
            seconds = now if one.at == starts[-1] else 60.0
            made[name][place[one.at]] += one.deliveries / seconds
    return list(made.items())


def _top(layers: Sequence[tuple[str, Sequence[float]]]) -> float:
    """Return a round number that no column exceeds."""
    most = max((sum(column) for column in zip(*(values for _, values in layers), strict=True)), default=0.0)
    step = 1.0
    while step * 10 < most:
        step *= 10
    return next((step * times for times in (1, 2, 4, 5, 8, 10) if step * times >= most), step * 10)


def _legend(rates: Rates) -> list[tuple[str, str, str]]:
    return [
        (_CLASSES[lane], lane, rate_text(sum(rate for (_, one), rate in rates.items() if one == lane)))
        for lane in LANES
    ]


def _channels(
    found: Overview, minutes: Sequence[Minute], backlog: Sequence[LaneBacklog], rates: Rates, starts: Sequence[int]
) -> list[Channel]:
    held = {one.channel: one.deliveries for one in found.held}
    names = sorted({one.channel for one in minutes} | {one.channel for one in backlog} | set(held))
    place = {start: number for number, start in enumerate(starts)}
    made = []
    for name in names:
        values, failed = [0.0] * len(starts), 0
        for one in minutes:
            if one.channel == name and one.at in place:
                values[place[one.at]] += one.deliveries if one.outcome == "succeeded" else 0
                failed += one.deliveries if one.outcome == "failed" else 0
        lanes = {one.lane: one for one in backlog if one.channel == name}
        oldest = max((lanes[lane].oldest_seconds for lane in LANES[:2] if lane in lanes), default=0.0)
        rate = sum(number for (channel, _), number in rates.items() if channel == name)
        state, says = _says(rate, oldest, lanes)
        made.append(
            Channel(
                name=name,
                says=says,
                state=state,
                spark=values,
                rate=rate,
                backlog=[lanes[lane].deliveries if lane in lanes else 0 for lane in LANES],
                oldest_seconds=max((one.oldest_seconds for one in lanes.values()), default=0.0),
                held=held.get(name, 0),
                failed=failed,
            )
        )
    return made


def _says(rate: float, oldest: float, lanes: Mapping[str, LaneBacklog]) -> tuple[str, str]:
    if oldest >= LATE_SECONDS:
        return "failed", f"{duration(oldest)} late"
    if rate:
        return "sent", "sends"
    return ("pending", "waits") if any(one.deliveries for one in lanes.values()) else ("none", "idle")


def _health(one: Replica) -> str:
    """Return the state of a replica."""
    if one.beat_seconds >= one.lease_seconds:
        return "failed"
    return "held" if one.beat_seconds >= one.lease_seconds * QUIET_SHARE else "sent"


def _needs(found: Overview, backlog: Sequence[LaneBacklog], replicas: Sequence[Replica], role: Role) -> Iterable[Need]:
    if found.system is not None and not any(one.beat_seconds < one.lease_seconds for one in replicas):
        yield Need("failed", "No dispatcher is alive.", "Nothing is sent until one is started.")
    if found.held:
        total = sum(one.deliveries for one in found.held)
        oldest = (found.at - min(one.oldest for one in found.held)).total_seconds()
        by = ", ".join(f"{capped(one.deliveries)} by {one.channel}" for one in found.held)
        words = f"{by}; the oldest for {duration(max(oldest, 0))}. A call was begun, and nobody knows how it ended."
        is_are = "delivery is" if total == 1 else "deliveries are"
        links = [("Decide", "/held", False)] if may(role, Right.HELD) else []
        yield Need("held", f"{capped(total, COUNT_MAX)} {is_are} held.", words, links)
    for one in backlog:
        if one.lane != "bulk" and one.oldest_seconds >= LATE_SECONDS:
            path = f"/deliveries?channel={one.channel}&life=pending"
            links = [("See them", path, False)] if may(role, Right.DELIVERIES) else []
            words = f"{capped(one.deliveries)} due in the {one.lane} lane."
            yield Need("failed", f"{one.channel} is {duration(one.oldest_seconds)} late.", words, links)
    for pause in found.pauses:
        # A run that somebody has paused is on its own page.
        if pause.scope in ("run", "campaign_run"):
            continue
        since = duration((found.at - pause.since).total_seconds())
        links = [("Pauses", "/pauses", False)] if may(role, Right.PAUSES) else []
        everywhere = " everywhere" if pause.tenant_id is None and pause.scope in ("channel", "template") else ""
        title = f"{pause.scope.replace('_', ' ').capitalize()} {pause.name} is paused{everywhere}."
        yield Need("parked", title, f"by {pause.actor}, {since} ago: “{pause.reason}”", links)
    if dead := sum((found.dead.runs, found.dead.deliveries, found.dead.jobs)):
        kinds = zip(("run", "delivery", "job"), (found.dead.runs, found.dead.deliveries, found.dead.jobs), strict=True)
        words = ", ".join(
            plural(number, kind, "deliveries" if kind == "delivery" else "") for kind, number in kinds if number
        )
        kind = "runs" if found.dead.runs else "deliveries" if found.dead.deliveries else "jobs"
        links = [("Look", f"/dead/{kind}", False)] if may(role, Right.DEAD_LETTERS) else []
        yield Need("failed", f"{capped(dead)} dead {'letter' if dead == 1 else 'letters'}.", f"{words}.", links)


def _vitals(
    found: Overview, backlog: Sequence[LaneBacklog], rates: Rates, ended: Mapping[str, int]
) -> Iterable[tuple[str, str, str, str]]:
    """Yield name, figure, unit and note of each."""
    yield "Sent per second", rate_text(sum(rates.values())), "", "all workspaces" if found.system else "this workspace"
    if found.system is not None:
        due = sum(one.deliveries for one in backlog)
        is_capped = any(one.deliveries >= COUNT_MAX for one in backlog)
        most = max(backlog, key=lambda one: one.deliveries, default=None)
        note = (
            f"{capped(most.deliveries)} in {most.channel} {most.lane}" if most is not None and due else "nothing waits"
        )
        yield "Due and waiting", f"{count(due)}{'+' if is_capped else ''}", "", note
        late = max(backlog, key=lambda one: one.oldest_seconds, default=None)
        has = late is not None and late.deliveries > 0
        figure, note = (duration(late.oldest_seconds), f"{late.channel} {late.lane}") if has and late else (MISSING, "")
        yield "Oldest due", figure, "", note
    held = sum(one.deliveries for one in found.held)
    oldest = min((one.oldest for one in found.held), default=None)
    yield "Held", capped(held), "", "" if oldest is None else f"oldest {duration((found.at - oldest).total_seconds())}"
    dead = found.dead.runs + found.dead.deliveries + found.dead.jobs
    yield "Dead letters", capped(dead), "", "of this workspace"
    total = sum(ended.get(name, 0) for name in ("succeeded", "skipped", "failed"))
    share = f"{100 * ended.get('succeeded', 0) / total:.1f}" if total else MISSING
    yield "Sent, last hour", share, "%" if total else "", f"of {count(total)} that ended"

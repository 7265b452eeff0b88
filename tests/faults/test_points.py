"""The fault points: wherever the process dies, each delivery goes out once, or is held where nobody can know."""

import ast
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Sequence
from functools import cache
from itertools import count
from pathlib import Path

import psutil
import pytest

from dispatcher.base.fault_points import POINTS
from dispatcher.db.database import Database
from dispatcher.db.health import checks
from dispatcher.features.deliveries.store import New, insert
from tests.support.forks import ROOT
from tests.support.program import Program
from tests.support.scene import Scene
from tests.support.waits import until

QUICK = {
    "DISPATCHER_INSTANCE__HEARTBEAT_SECONDS": "0.1",
    "DISPATCHER_INSTANCE__LEASE_SECONDS": "0.6",
    "DISPATCHER_INSTANCE__LICENCE_SECONDS": "0.4",
    "DISPATCHER_CHANNELS__SMS__PROVIDER": "capture",
}
# The first goes at once; while the next waits a third of a second for its token, a drain finds it claimed.
SLOW = {"DISPATCHER_CHANNELS__SMS__RATE_PER_SECOND": "3", "DISPATCHER_CHANNELS__SMS__RATE_BURST": "1"}
NUMBER = 4

WHERE = {
    "claim.asked": "engine/claimer.py",
    "claim.taken": "engine/claimer.py",
    "render.done": "engine/renderer.py",
    "mark.asked": "engine/sender.py",
    "mark.written": "engine/sender.py",
    "call.begun": "engine/sender.py",
    "call.ended": "engine/sender.py",
    "result.put": "engine/sender.py",
    "flush.asked": "engine/flusher.py",
    "flush.written": "engine/flusher.py",
    "tick.before_commit": "features/schedules/worker.py",
    "tick.committed": "features/schedules/worker.py",
    "announce.before_commit": "features/webhooks/worker.py",
    "announce.committed": "features/webhooks/worker.py",
    "quiet_hours.decided": "features/quiet_hours/worker.py",
    "quiet_hours.moved": "features/quiet_hours/worker.py",
    "walk.noted": "features/runs/walk/batch.py",
    "walk.before_commit": "features/runs/walk/batch.py",
    "walk.committed": "features/runs/walk/batch.py",
    "expand.locked": "features/campaigns/worker.py",
    "expand.before_commit": "features/campaigns/worker.py",
    "expand.committed": "features/campaigns/worker.py",
    "recovery.fenced": "engine/recoverer.py",
    "recovery.done": "engine/recoverer.py",
    "drain.begun": "pipeline.py",
    "farewell.begun": "pipeline.py",
    "farewell.flushed": "pipeline.py",
    "farewell.left": "pipeline.py",
    "move.page": "features/cells/moving/mover.py",
    "move.stopped": "features/cells/moving/mover.py",
    "move.drained": "features/cells/moving/mover.py",
    "move.verified": "features/cells/moving/mover.py",
    "move.closed": "features/cells/moving/mover.py",
    "move.opened": "features/cells/moving/mover.py",
    "move.cleaned": "features/cells/moving/cleaning.py",
}
SENDING = POINTS[: POINTS.index("flush.written") + 1]
RECOVERING = tuple(point for point in POINTS if point.startswith("recovery."))
LEAVING = tuple(point for point in POINTS if point.startswith(("drain.", "farewell.")))
# Marked, and without a result that was written: what became of the call, nobody can know.
UNKNOWN = POINTS[POINTS.index("mark.written") : POINTS.index("flush.written")]
CALLED = POINTS[POINTS.index("call.ended") : POINTS.index("flush.written") + 1]

_numbers = count(1)


@pytest.fixture
async def second(url: str) -> AsyncIterator[Program]:
    """The program that is started when the first one has met its fault."""
    program = Program(url, **QUICK)
    try:
        yield program
    finally:
        program.end()


class Case:
    """Deliveries, the program that meets a fault on them, and the one that comes after it."""

    def __init__(self, database: Database, first: Program, second: Program) -> None:
        self.database = database
        self.first = first
        self.second = second
        first.environment = dict(QUICK)
        self.ids: list[int] = []

    async def write(self, number: int = NUMBER) -> None:
        """Deliveries that are due."""
        template = '{"body": "hello"}'
        batch = [
            New(idempotency_key=f"point-{next(_numbers)}", channel="sms", recipient="+4917012345", template=template)
            for _ in range(number)
        ]
        self.ids += [written.id for written in await insert(self.database, batch)]

    async def died(self) -> None:
        """Wait for the first one's end by its fault."""
        assert await self.first.ended(15) == -signal.SIGKILL, self.first.lines()[-5:]

    async def lives(self) -> Counter[str]:
        """How many stand where."""
        rows = await self.database.fetch("SELECT life FROM dispatcher.delivery_life WHERE id = ANY ($1)", self.ids)
        return Counter(row["life"] for row in rows)

    async def captured(self) -> Counter[int]:
        """How often the provider was given each."""
        rows = await self.database.fetch("SELECT delivery_id FROM dispatcher.captured_messages")
        return Counter(row["delivery_id"] for row in rows)

    async def settled(self, **lives: int) -> None:
        """Wait until so many stand there, and see that nothing went out twice, is stuck or contradicts itself."""
        seen: Counter[str] = Counter()

        async def there() -> bool:
            nonlocal seen
            seen = await self.lives()
            return seen == Counter(lives)

        try:
            await until(there, f"{lives}", 15)
        except AssertionError as late:
            raise AssertionError(f"{late}, but {dict(seen)}") from late
        assert max((await self.captured()).values(), default=0) <= 1
        assert [found for name in checks.invariants() if (found := await checks.check(self.database, name))] == []


@pytest.fixture
def case(database: Database, program: Program, second: Program) -> Case:
    """Nothing has happened yet."""
    return Case(database, program, second)


# Death


@pytest.mark.parametrize("point", SENDING)
async def test_death_while_sending(case: Case, point: str) -> None:
    await case.first.start(FAULT=f"{point}:1:kill9")
    await case.write()
    await case.died()
    await case.second.start()
    if point in UNKNOWN:
        await case.settled(held=NUMBER)
    else:
        await case.settled(sent=NUMBER)
    captured = await case.captured()
    assert sorted(captured) == (case.ids if point in CALLED or point not in UNKNOWN else [])


@pytest.mark.parametrize("point", RECOVERING)
async def test_death_while_recovering_another(case: Case, point: str) -> None:
    scene = await Scene.open(case.database)
    await case.database.fetch("UPDATE dispatcher.instances SET lease_seconds = 0.5")
    await case.write()
    items = await scene.claim()
    await scene.mark(items[:1])
    await case.first.launch(FAULT=f"{point}:1:kill9")
    await case.died()
    await case.second.start()
    await case.settled(held=1, sent=NUMBER - 1)


@pytest.mark.parametrize("point", LEAVING)
async def test_death_while_leaving(case: Case, point: str) -> None:
    await _leave(case, f"{point}:1:kill9")
    await case.died()
    await case.second.start()
    await case.settled(sent=NUMBER)


async def _leave(case: Case, fault: str) -> None:
    """Drain the first one while it waits for tokens."""
    await case.first.start(FAULT=fault, **SLOW)
    await case.write()

    async def first_one() -> bool:
        return (await case.lives())["sent"] > 0

    await until(first_one, "the first one is sent")
    case.first.signal(signal.SIGTERM)


# A bug


@pytest.mark.parametrize("point", ["claim.taken", "mark.written", "call.ended", "flush.asked"])
async def test_a_bug_while_sending_starts_another_epoch(case: Case, point: str) -> None:
    await case.first.start(FAULT=f"{point}:1:raise")
    await case.write()
    held = {"held": NUMBER} if point in ("mark.written", "flush.asked") else {}
    await case.settled(**(held or {"sent": NUMBER}))
    # A call that has reported everything before it raised harms nobody.
    epochs = 1 if point == "call.ended" else 2
    await case.first.until(lambda: len(case.first.events("pipeline.started")) == epochs, "the next epoch")
    await case.write(1)
    await case.settled(**held, sent=len(case.ids) - len(held) * NUMBER)


@pytest.mark.parametrize("point", ["drain.begun", "farewell.begun", "farewell.flushed"])
async def test_a_bug_while_leaving_loses_nothing(case: Case, point: str) -> None:
    await _leave(case, f"{point}:1:raise")
    await case.first.ended(15)
    await case.second.start()
    await case.settled(sent=NUMBER)


async def test_a_spent_budget_ends_the_process_and_names_the_actor(case: Case) -> None:
    await case.first.start(FAULT="render.done:1:raise", DISPATCHER_SUPERVISOR__RESTARTS_MAX="0")
    await case.write()
    assert await case.first.ended(15) not in (0, -signal.SIGKILL)
    log = case.first.log_path.read_text()
    assert "pipeline crashed 1 time within 60 s" in log
    await case.second.start()
    await case.settled(sent=NUMBER)


# A process that stood still


@pytest.mark.parametrize("point", ["claim.taken", "mark.written", "call.ended"])
async def test_an_instance_paused_past_its_lease_sends_nothing_twice(case: Case, point: str) -> None:
    await case.first.start(FAULT=f"{point}:1:stop")
    await case.write()
    assert case.first.process is not None
    stopped = psutil.Process(case.first.process.pid)
    await until(lambda: stopped.status() == psutil.STATUS_STOPPED, "it stands still")
    try:
        await case.second.start()
        await case.settled(**({"held": NUMBER} if point in UNKNOWN else {"sent": NUMBER}))
    finally:
        os.kill(stopped.pid, signal.SIGCONT)
    # What it knows is told late: that nothing was called, or that it was accepted.
    await case.settled(sent=NUMBER)
    assert sorted(await case.captured()) == case.ids


# The house style of points


def _calls(tree: ast.AST) -> Iterator[tuple[ast.Call, bool]]:
    """Each `fault_points.passing(…)`, and whether it stands alone under `if fault_points.ARMED:`."""
    guarded: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "fault_points.ARMED" and not node.orelse:
            guarded.update(body.value for body in node.body if isinstance(body, ast.Expr))
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == "passing":
            yield node, node in guarded


@cache
def _used() -> Sequence[tuple[str, Path, int, bool]]:
    """Every use of a point: its name, the file and line, and whether it is guarded."""
    used: list[tuple[str, Path, int, bool]] = []
    for folder in (ROOT / "dispatcher", ROOT / "channels"):
        for path in sorted(folder.rglob("*.py")):
            tree = ast.parse(path.read_text())
            for call, guarded in _calls(tree):
                used.append((ast.literal_eval(call.args[0]), path, call.lineno, guarded))
    return used


@pytest.mark.parametrize("point", POINTS)
def test_every_point_is_met_once_and_where_it_is_expected(point: str) -> None:
    assert [path for name, path, _, _ in _used() if name == point] == [ROOT / "dispatcher" / WHERE[point]]


def test_every_point_that_is_met_is_declared() -> None:
    assert {name for name, *_ in _used()} <= set(POINTS)
    assert set(WHERE) == set(POINTS)


def test_unarmed_no_point_is_called() -> None:
    assert [(name, f"{path}:{line}") for name, path, line, guarded in _used() if not guarded] == []

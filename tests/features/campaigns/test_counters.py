"""Counters: whatever is done to deliveries of a run, its counters and those of its jobs say what the rows are."""

import random

import pytest

from dispatcher.db.health import checks
from dispatcher.engine.rules.life import POISON_STEPS, Again, Back, Claimed, Failed, Held, Outcome, Skipped
from dispatcher.engine.store import held, pauses
from tests.features.campaigns.stage import ACCEPTED, CANCEL, PAUSE, REPLAY, RESUME, SETTLE_NOW, Stage, wrong_books
from tests.support.scene import HOLD, RESEND, Scene

STEPS = 60
SEEDS = 6
OUTCOMES: tuple[Outcome, ...] = (
    ACCEPTED,
    ACCEPTED,
    Failed("number 4917012345 is unknown"),
    Failed("refused", conclusive=True),
    Skipped("suppressed: unsubscribed from news"),
    Skipped("expired"),
    Held("unknown: no answer"),
    Again(0.0, "try later"),
    Again(0.0, "no answer", RESEND),
    Back(0.0, "draining"),
)
CHOICE = "SELECT id FROM dispatcher.delivery_state WHERE job_id IS NOT NULL ORDER BY md5(id::text || $1) LIMIT $2"
CHANGES = {
    "cancel": "SELECT dispatcher.cancel_delivery_by_id($1, 'ann', 'no')",
    "move": "SELECT dispatcher.move_delivery($1, now(), 'ann', 'now')",
    "reopen": "SELECT dispatcher.reopen_delivery($1, 'ann', 'once more')",
    "sent": "SELECT dispatcher.settle_held($1, 'sent', 'ann', 'seen')",
    "failed": "SELECT dispatcher.settle_held($1, 'failed', 'ann', 'not seen')",
    "requeue": "SELECT dispatcher.settle_held($1, 'requeue', 'ann', 'again')",
}
EXPIRE = "UPDATE dispatcher.delivery_state SET expires_at = now() WHERE id = $1 AND status = 'queued'"
NEVER_AGAIN = "UPDATE dispatcher.delivery_state SET expires_at = NULL WHERE expires_at IS NOT NULL"
TIMELY = "UPDATE dispatcher.delivery_state SET run_at = now() - interval '1 s' WHERE status = 'queued'"
DEADLY = "UPDATE dispatcher.delivery_state SET recoveries = 5 WHERE id = $1 AND status = 'queued' AND NOT ready"


class Chance:
    """A run to which anything happens, in an order that a seed decides."""

    def __init__(self, stage: Stage, run_id: int, seed: int) -> None:
        self.stage, self.run_id = stage, run_id
        self.dice = random.Random(seed)  # noqa: S311 - it chooses what a test does
        self.claimed: list[Claimed] = []
        self.marked: list[Claimed] = []
        self.forgotten: list[tuple[Scene, Claimed]] = []

    async def step(self) -> str:
        """One thing that happens; answers its name."""
        steps = (self.work, self.work, self.work, self.work, self.change, self.change, self.change, self.disturb)
        return await self.dice.choice(steps)()

    async def work(self) -> str:
        """What a dispatcher does."""
        stage, some = self.stage, self.dice.randint(1, 8)
        match self.dice.randrange(6):
            case 0:
                await stage.expand_all(self.dice.choice([5, 20_000]))
                return "expand"
            case 1:
                self.claimed += await stage.claim(some, self.dice.choice([HOLD, RESEND]))
                return "claim"
            case 2:
                self.marked += await self._mark()
                return "mark"
            case 3 | 4:
                return await self._flush(some)
            case _:
                await stage.value("SELECT dispatcher.close_jobs($1)", self.dice.choice([1, 200]))
                return "close"

    async def _mark(self) -> list[Claimed]:
        items, self.claimed = self.claimed, []
        done = await self.stage.scene.mark(items) if items else {}
        return [item for item in items if item.id in done]

    async def _flush(self, some: int) -> str:
        items, self.marked = self.marked[:some], self.marked[some:]
        results = [(item, self.dice.choice(OUTCOMES)) for item in sorted(items, key=lambda item: item.id)]
        fenced = await self.stage.scene.flush(*results)
        for item, outcome in fenced:
            await self.stage.scene.late(item, outcome)
        return f"flush {[type(outcome).__name__ for _, outcome in results]}"

    async def change(self) -> str:
        """What somebody does to some deliveries."""
        stage = self.stage
        chosen = await stage.database.fetch(CHOICE, str(self.dice.random()), self.dice.randint(1, 4))
        ids = sorted(row["id"] for row in chosen)
        what = self.dice.choice([*CHANGES, "bar", "expire", "late", "suspect"])
        for one in ids:
            if what in CHANGES:
                await stage.database.fetch(SETTLE_NOW)
                await stage.database.fetch(CHANGES[what], one)
            elif what == "expire":
                await stage.database.fetch(EXPIRE, one)
            elif what == "suspect":
                await stage.database.fetch(DEADLY, one)
        if what == "bar":
            await stage.database.fetch("SELECT dispatcher.bar($1, $2)", ids, ["suppressed: bounce"] * len(ids))
        if what == "expire":
            await held.expire(stage.database, 100)
            await stage.database.fetch(NEVER_AGAIN)
        if what == "late" and self.forgotten:
            scene, item = self.forgotten.pop(self.dice.randrange(len(self.forgotten)))
            await scene.late(item, self.dice.choice(OUTCOMES))
            await held.settle_by_evidence(stage.database)
        return f"{what} {ids}"

    async def disturb(self) -> str:
        """What happens to a run, or to the process that sends it."""
        stage = self.stage
        if self.dice.randrange(4) == 0:
            self.forgotten += [(stage.scene, item) for item in (*self.claimed, *self.marked)]
            self.claimed, self.marked = [], []
            await stage.die()
            return "death"
        if self.dice.randrange(15) == 0:
            await stage.database.fetch("SELECT dispatcher.quarantine_deliveries(now(), 'ann', 'restored')")
            return "quarantine"
        return await self.operate()

    async def operate(self) -> str:
        """What an operator does to the run."""
        stage = self.stage
        match self.dice.randrange(2, 7):
            case 2:
                await stage.value(PAUSE, self.run_id)
                return "pause"
            case 3:
                await stage.value(RESUME, self.run_id)
                await pauses.unpark(stage.database, 100)
                return "resume"
            case 4:
                rate = self.dice.choice([1000.0, 5000.0])
                await stage.database.fetch("SELECT dispatcher.set_campaign_rate($1, $2)", self.run_id, rate)
                await stage.database.fetch(
                    "UPDATE dispatcher.campaign_runs SET respace_at = respace_at - interval '1 s'"
                )
                await stage.database.fetch("SELECT dispatcher.space_campaigns()")
                return "rate"
            case 5:
                await stage.value(REPLAY, self.run_id)
                return "replay"
            case _:
                if self.dice.random() < 0.3:
                    await stage.value(CANCEL, self.run_id)
                await stage.skip_cancelled()
                return "cancel"

    async def end(self) -> None:
        """Let the run end: nothing more happens to it."""
        stage = self.stage
        await stage.value(RESUME, self.run_id)
        await stage.die()
        for _ in range(20):
            await pauses.unpark(stage.database, 1000)
            await stage.skip_cancelled()
            await stage.expand_all()
            await stage.database.fetch(SETTLE_NOW)
            await held.settle_by_evidence(stage.database)
            for one in await stage.database.fetch("SELECT id FROM dispatcher.delivery_state WHERE held ORDER BY id"):
                await stage.database.fetch(CHANGES["sent"], one["id"])
            await stage.database.fetch(TIMELY)
            await stage.send()
            for step in POISON_STEPS:
                items = await stage.scene.claim_recovered(step)
                await stage.scene.mark(items)
                await stage.end(items)
            await stage.close()
            if (await stage.run(self.run_id))["finished_at"] is not None:
                return
        raise AssertionError(f"it does not end: {await stage.items(self.run_id)}, {dict(await stage.run(self.run_id))}")


@pytest.mark.parametrize("seed", range(SEEDS))
async def test_counters_are_the_rows_whatever_happens(campaigns: Stage, seed: int) -> None:
    run_id = await campaigns.deployed(30, 7)
    chance = Chance(campaigns, run_id, seed)
    done = []
    for number in range(STEPS):
        done.append(await chance.step())
        if number % 10 == 9:
            await campaigns.close()
            assert await wrong_books(campaigns.database) == [], done
    await chance.end()
    assert await wrong_books(campaigns.database) == [], done
    run = await campaigns.run(run_id)
    assert run["sent"] + run["failed"] + run["skipped"] + run["cancelled"] + run["expired"] == 30
    assert run["held"] == 0
    assert run["expanded"] == 30
    assert await campaigns.value("SELECT count(*) FROM dispatcher.job_results") == 0
    assert await campaigns.value("SELECT count(*) FROM dispatcher.campaign_run_reasons WHERE count < 0") == 0
    before = None
    for was, becomes in await campaigns.transitions(run_id):
        assert was == before
        before = becomes
    assert before == run["status"]
    found = [await checks.check(campaigns.database, name) for name in checks.invariants()]
    assert [one for one in found if one is not None] == [], done
    await campaigns.sound()

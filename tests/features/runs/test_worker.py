"""What a walk writes, and what it must not lose: wakes that come during it, runs that others hold, events, answers."""

import asyncio
import json

import asyncpg
import pytest

from dispatcher.db.database import Database
from dispatcher.engine.rules.life import Failed, Held, Succeeded
from dispatcher.features.runs.walk import walking
from dispatcher.plans.plan import Delay, Digest, Wait
from tests.features.runs.stage import Stage
from tests.features.templates.support import draft, save
from tests.plans.walks import plan, send

LINE = plan({"mail": send(1, "{{ to }}"), "pause": Delay(step=2, seconds=3600.0), "text": send(3, "{{ to }}")})
SHORT = plan({"mail": send(1, "{{ to }}"), "text": send(2, "{{ to }}")})
MANY = [f"+49{number}" for number in range(1_000)]


async def test_a_walk_writes_everything_in_one_transaction(stage: Stage) -> None:
    saved = await save(stage.database, draft("hello", "sms"))
    stored = plan({"mail": send(1, "{{ to }}", parts=None, template="hello"), "wait": Delay(step=2, seconds=60.0)})
    await stage.put(stored)
    run = await stage.trigger(to="+4917012345", name="Ann", secret="s")
    walked = await stage.walk()
    assert (walked.runs, walked.deliveries) == (1, 1)
    (one,) = await stage.deliveries(run)
    assert (one["node"], one["recipient"], one["template_version"], one["life"]) == (
        "mail",
        "+4917012345",
        saved.version_id,
        "pending",
    )
    assert "secret" not in json.loads(one["variables"])
    row = await stage.run(run)
    assert (row["status"], row["available_at"], row["started_at"] is not None) == ("running", None, True)
    assert await stage.cursor(run) == {"mail": "sending"}
    assert await stage.log(run) == [("started", "mail")]
    # The version that was published when it was ordered.
    await save(stage.database, draft("hello", "sms", body="Bye"))
    await stage.end()
    await stage.walk()
    row = await stage.run(run)
    assert (row["status"], row["available_at"] is not None) == ("waiting", True)
    assert await stage.log(run) == [("started", "mail"), ("succeeded", "mail"), ("started", "wait")]
    assert (await stage.deliveries(run))[0]["template_version"] == saved.version_id
    assert (await stage.count("wakes"), await stage.count("walks")) == (0, 0)
    await stage.sound()


async def test_a_template_that_is_not_there_any_more_fails_its_node_and_a_replay_finds_it(stage: Stage) -> None:
    # The trigger would have refused it: here the plan names what comes later.
    await stage.put(plan({"mail": send(1, "{{ to }}", parts=None, template="later"), "text": send(2, "{{ to }}")}))
    run = await stage.trigger(to="+4917012345", name="Ann")
    await stage.play()
    row = await stage.run(run)
    assert (row["status"], row["error"], row["error_node"]) == (
        "failed",
        "template: there is no template 'later'",
        "mail",
    )
    assert not await stage.deliveries(run)
    await stage.sound()
    await save(stage.database, draft("later", "sms"))
    assert await stage.do("replay", run) == "replayed"
    await stage.play()
    assert (await stage.run(run))["status"] == "completed"
    assert [one["node"] for one in await stage.deliveries(run)] == ["mail", "text"]


async def test_a_run_goes_to_its_end(stage: Stage) -> None:
    await stage.put(LINE)
    run = await stage.trigger(to="+4917012345")
    await stage.play()
    assert await stage.cursor(run) == {"pause": "delaying"}
    await stage.pass_time()
    await stage.play()
    row = await stage.run(run)
    assert (row["status"], row["finished_at"] is not None, row["available_at"]) == ("completed", True, None)
    # Two nodes send the same to the same recipient: they are two messages.
    assert [one["node"] for one in await stage.deliveries(run)] == ["mail", "text"]
    await stage.sound()


async def test_a_node_is_part_of_the_key(stage: Stage) -> None:
    """Two nodes of one walk tell one recipient the same at the same time."""
    await stage.put(
        plan({"fork": Delay(step=1, seconds=0.0), "a": send(2, "x"), "b": send(3, "x")}, {"fork": ["a", "b"]})
    )
    run = await stage.trigger()
    await stage.play()
    assert [one["node"] for one in await stage.deliveries(run)] == ["a", "b"]
    assert await stage.statuses() == {"completed": 1}


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", ["record_walk", "delete_wakes", "results", "write"])
async def test_a_wake_that_comes_during_a_walk_is_not_lost(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, step: str, when: str
) -> None:
    """A delivery ends just before or after each step of a walk: that one sees it, or the next."""
    await stage.put(SHORT)
    run = await stage.trigger(to="+4917012345")
    await stage.walk()
    await stage.database.fetch("INSERT INTO dispatcher.wakes VALUES ($1)", run)
    asked = getattr(walking, step)
    sent: list[int] = []

    async def meanwhile(*given: object) -> object:
        if when == "before" and not sent:
            sent.append(await stage.end())
        found: object = await asked(*given)
        if when == "after" and not sent:
            sent.append(await stage.end())
        return found

    monkeypatch.setattr(walking, step, meanwhile)
    await stage.walk_on()
    assert sent == [1]
    assert await stage.cursor(run) == {"text": "sending"}
    await stage.sound()


async def test_results_wake_a_run_whatever_writes_them(stage: Stage) -> None:
    """What an operator settles, and what a recovery finds, ends a node as a flush does."""
    await stage.put(SHORT)
    run = await stage.trigger(to="+4917012345")
    await stage.walk_on()
    (one,) = await stage.deliveries(run)
    await stage.database.fetch("SELECT dispatcher.cancel_delivery_by_id($1, 'ann', 'no')", one["id"])
    await stage.walk_on()
    assert await stage.cursor(run) == {"text": "sending"}


async def test_many_wakes_for_one_run_are_one_walk(stage: Stage) -> None:
    await stage.put(plan({"mail": send(1, "{{ all }}"), "text": send(2, "+4917012345")}))
    run = await stage.trigger(all=MANY)
    other = await stage.trigger(all=["+4917012345"])
    assert await stage.walk_on() == len(MANY) + 1
    assert await stage.end() == len(MANY) + 1
    assert await stage.count("wakes") == len(MANY) + 1
    assert await stage.walk_on() == 2
    assert await stage.count("wakes") == 0
    assert len((await stage.state(run))["vars"]["mail"]["recipients"]) == len(MANY)
    assert await stage.cursor(other) == {"text": "sending"}
    await stage.sound()


async def test_a_batch_that_orders_more_than_a_statement_writes(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(walking, "ROWS_MAX", 3)
    await stage.put(plan({"mail": send(1, "{{ all }}")}))
    runs = [await stage.trigger(all=MANY[:number]) for number in range(1, 6)]
    assert await stage.walk_on() == 15
    assert [len(await stage.deliveries(run)) for run in runs] == [1, 2, 3, 4, 5]


async def test_two_walkers_never_walk_one_run_twice(stage: Stage, url: str) -> None:
    await stage.put(SHORT)
    await stage.database.fetch(
        "SELECT dispatcher.trigger_workflow('plan', jsonb_build_object('to', n)) FROM generate_series(1, 300) AS n"
    )
    stage.settings = stage.walker.settings = type(stage.settings)(batch_max=7)
    others = [await stage.another() for _ in range(2)]
    for _ in range(3):
        # They look at once, again and again: whatever one has locked, or has just written, the others pass over.
        counted = await asyncio.gather(*(one.walk_on() for one in (stage, *others)))
        assert sum(counted) in (300, 0)
        await stage.end()
    assert await stage.statuses() == {"completed": 300}
    assert set((await stage.ordered()).values()) == {1}
    assert await stage.count("deliveries") == 600
    await stage.sound()


async def test_a_paused_run_stays_where_it_is_and_loses_nothing(stage: Stage) -> None:
    await stage.put(SHORT)
    run = await stage.trigger(to="+4917012345")
    await stage.walk_on()
    items = await stage.scene.claim()
    await stage.scene.mark(items)
    await stage.do("pause", run)
    await stage.scene.flush((items[0], Succeeded("m")))
    assert await stage.walk_on() == 0
    assert await stage.count("wakes") == 0
    assert await stage.cursor(run) == {"mail": "sending"}
    await stage.do("resume", run)
    assert await stage.walk_on() == 1
    await stage.sound()


async def test_wakes_of_deleted_runs_are_deleted(stage: Stage) -> None:
    await stage.put(SHORT)
    run = await stage.trigger(to="+4917012345")
    await stage.walk_on()
    await stage.database.fetch("INSERT INTO dispatcher.wakes SELECT -n FROM generate_series(1, 200) AS n")
    await stage.end()
    assert await stage.walk_on() == 1
    await stage.poison_worker.run_once()
    assert (await stage.count("wakes"), await stage.cursor(run)) == (0, {"text": "sending"})


async def test_a_walker_waits_longer_for_a_locked_run(stage: Stage, url: str) -> None:
    await stage.put(SHORT)
    run = await stage.trigger(to="+4917012345")
    holder = await asyncpg.connect(url)
    try:
        transaction = holder.transaction()
        await transaction.start()
        await holder.execute("SELECT FROM dispatcher.runs WHERE id = $1 FOR UPDATE", run)
        waits = [await stage.walker._round() for _ in range(8)]
        assert waits[-1] >= 0.05
        assert await stage.walk() == type(await stage.walk())(0, 0)
        await transaction.rollback()
    finally:
        await holder.close()
    assert await stage.walk_on() == 1


async def test_an_event_is_taken_by_one_node_once(stage: Stage) -> None:
    await stage.put(
        plan({"one": Wait(step=1, event="paid"), "two": Wait(step=2, event="paid"), "text": send(3, "+4917012345")})
    )
    run = await stage.trigger()
    await stage.signal(run, "paid", by="card")
    await stage.walk_on()
    await stage.walk_on()
    assert await stage.cursor(run) == {"two": "waiting"}
    await stage.signal(run, "paid", by="cash")
    await stage.play()
    assert await stage.statuses() == {"completed": 1}
    variables = (await stage.state(run))["vars"]
    assert (variables["one"], variables["two"]) == ({"by": "card"}, {"by": "cash"})
    assert await stage.database.value("SELECT count(*) FROM dispatcher.signals WHERE taken") == 2


async def test_a_run_with_a_held_delivery_stays_open_until_it_is_settled(stage: Stage) -> None:
    await stage.put(plan({"mail": send(1, "{{ to }}"), "text": send(2, "{{ to }}")}, timeout_seconds=60.0))
    settled, told = await stage.trigger(to="+1"), await stage.trigger(to="+2")
    await stage.walk_on()
    items = await stage.scene.claim()
    await stage.scene.mark(items)
    await stage.scene.flush(*((item, Held("unknown: no answer")) for item in items))
    await stage.database.fetch(
        "UPDATE dispatcher.delivery_state SET held_at = now() - interval '1 day', settle_after = NULL"
    )
    await stage.pass_time()
    # However long it is held, that is not the run's time.
    await stage.walk_on()
    assert await stage.statuses() == {"running": 2}
    by_run = {(await stage.deliveries(run))[0]["id"]: run for run in (settled, told)}
    first, second = items
    await stage.database.fetch("SELECT dispatcher.settle_held($1, 'sent', 'ann', 'saw it', 'm')", first.id)
    await stage.scene.late(second, Succeeded("late"))
    assert await stage.walk_on() == 2
    assert {run: await stage.cursor(run) for run in by_run.values()} == {
        run: {"text": "sending"} for run in by_run.values()
    }
    await stage.play()
    assert await stage.statuses() == {"completed": 2}
    await stage.sound()


async def test_a_replay_goes_on_from_where_it_failed(stage: Stage) -> None:
    await stage.put(SHORT)
    run = await stage.trigger(to="+4917012345")
    await stage.play(Failed("no such number"))
    assert (await stage.run(run))["error_node"] == "mail"
    await stage.do("replay", run)
    await stage.play()
    assert await stage.statuses() == {"completed": 1}
    assert set((await stage.ordered()).values()) == {1}
    assert [event for event, node in await stage.log(run) if node in (None, "mail")] == [
        "started",
        "failed",
        "replayed",
        "succeeded",
    ]
    await stage.sound()


async def test_a_delivery_sent_after_its_timeout_is_not_ordered_again(stage: Stage) -> None:
    await stage.put(plan({"mail": send(1, "{{ to }}"), "text": send(2, "+4917012345")}, timeout_seconds=60.0))
    run = await stage.trigger(to="+4917012345")
    await stage.walk_on()
    items = await stage.scene.claim()
    await stage.scene.mark(items)
    await stage.database.fetch(
        "UPDATE dispatcher.runs SET available_at = now(), state = jsonb_set(state, '{working_since}', '1')"
    )
    await stage.walk_on()
    assert ((await stage.run(run))["error"] or "").startswith("timeout: ")
    await stage.scene.flush((items[0], Succeeded("m")))
    await stage.do("replay", run)
    await stage.play()
    assert await stage.statuses() == {"completed": 1}
    assert [one["node"] for one in await stage.deliveries(run)] == ["mail", "text"]
    await stage.sound()


async def test_a_digest_goes_on_once_with_the_list(stage: Stage) -> None:
    await stage.put(plan({"all": Digest(step=1, key="{{ who }}", window_seconds=60.0), "mail": send(2, "{{ who }}")}))
    runs = [await stage.trigger(who="ann", n=number) for number in range(3)]
    await stage.walk_on()
    assert await stage.statuses() == {"waiting": 1, "completed": 2}
    await stage.pass_time()
    await stage.play()
    assert await stage.statuses() == {"completed": 3}
    assert [item["n"] for item in (await stage.state(runs[0]))["vars"]["all"]["items"]] == [0, 1, 2]
    assert await stage.count("deliveries") == 1


async def test_a_walker_on_another_connection_pool_finds_what_is_there(stage: Stage, url: str) -> None:
    """Plans are loaded when they are met, and by whoever meets them."""
    await stage.put(SHORT)
    run = await stage.trigger(to="+4917012345")
    await stage.walk_on()
    await stage.end()
    database = Database(stage.database._settings, url)
    await database.open()
    try:
        other = await stage.another(database)
        assert await other.walk_on() == 1
    finally:
        await database.close()
    assert await stage.cursor(run) == {"text": "sending"}

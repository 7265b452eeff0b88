"""Digests of a leader that ends before it collects them: their items move to another run, once."""

from dispatcher.engine.rules.life import Failed, Succeeded
from dispatcher.plans.plan import Delay, Digest
from tests.features.runs.stage import Stage
from tests.plans.walks import plan, send

LINE = plan({"all": Digest(step=1, key="{{ who }}", window_seconds=60.0, items_max=4), "mail": send(2, "{{ who }}")})


async def _items(stage: Stage, run: int) -> list[int]:
    return [item["n"] for item in (await stage.state(run))["vars"]["all"]["items"]]


async def _led(stage: Stage, count: int) -> list[int]:
    runs = [await stage.trigger(who="ann", n=number) for number in range(count)]
    await stage.walk_on()
    assert await stage.cursor(runs[0]) == {"all": "digesting"}
    return runs


async def _heir(stage: Stage, leader: int) -> int:
    return int(
        await stage.database.value("SELECT id FROM dispatcher.runs WHERE triggered_by = $1", f"digest of run {leader}")
    )


async def test_a_cancelled_leader_hands_over_what_others_have_left_with_it(stage: Stage) -> None:
    version = await stage.put(LINE)
    leader, *_ = await _led(stage, 3)
    until = (await stage.run(leader))["available_at"]
    assert await stage.do("cancel", leader) == "cancelled"
    heir = await stage.run(await _heir(stage, leader))
    assert (heir["status"], heir["available_at"], heir["version_id"]) == ("waiting", until, version)
    # It is still open, for as many as the old one was.
    fourth, fifth, sixth = [await stage.trigger(who="ann", n=number) for number in (3, 4, 5)]
    await stage.walk_on()
    assert [await stage.cursor(one) for one in (fourth, fifth, sixth)] == [{}, {}, {"all": "digesting"}]
    await stage.sound()
    await stage.pass_time()
    await stage.play()
    assert await _items(stage, heir["id"]) == [1, 2, 3, 4]
    mailed = [("started", "mail"), ("succeeded", "mail")]
    assert await stage.log(heir["id"]) == [("started", "all"), ("succeeded", "all"), *mailed]
    assert await stage.statuses() == {"completed": 6, "cancelled": 1}
    assert await stage.count("deliveries") == 2
    await stage.sound()


async def test_cancelling_every_leader_of_a_digest_ends_it(stage: Stage) -> None:
    await stage.put(LINE)
    run, *_ = await _led(stage, 4)
    for _ in range(3):
        await stage.do("cancel", run)
        run = await _heir(stage, run)
    await stage.do("cancel", run)
    assert await stage.statuses() == {"completed": 3, "cancelled": 4}
    await stage.sound()


async def test_a_leader_without_other_items_leaves_no_digest(stage: Stage) -> None:
    await stage.put(LINE)
    (leader,) = await _led(stage, 1)
    await stage.do("cancel", leader)
    assert await stage.count("runs") == 1
    # The next one leads another.
    await _led(stage, 1)
    await stage.sound()


async def test_a_leader_that_has_collected_keeps_it(stage: Stage) -> None:
    await stage.put(LINE)
    leader, *_ = await _led(stage, 3)
    await stage.pass_time()
    await stage.walk_on()
    await stage.do("cancel", leader)
    assert await stage.count("runs") == 3
    assert await _items(stage, leader) == [0, 1, 2]


async def test_a_leader_that_fails_hands_over_and_has_its_own_when_it_is_replayed(stage: Stage) -> None:
    """Another path of it fails the run while it collects."""
    nodes = {
        "fork": Delay(step=1, seconds=0.0),
        "all": Digest(step=2, key="{{ who }}", window_seconds=60.0),
        "bad": send(3, "+1"),
        "mail": send(4, "{{ who }}"),
    }
    await stage.put(plan(nodes, {"fork": ["all", "bad"], "all": ["mail"]}))
    leader, *others = [await stage.trigger(who="ann", n=number) for number in range(3)]
    await stage.walk_on()
    for item in await stage.scene.claim():
        await stage.scene.mark([item])
        is_leaders = item.id == (await stage.deliveries(leader))[0]["id"]
        await stage.scene.flush((item, Failed("no such number") if is_leaders else Succeeded("m")))
    await stage.walk_on()
    assert (await stage.run(leader))["status"] == "failed"
    heir = await _heir(stage, leader)
    await stage.pass_time()
    await stage.play()
    assert await _items(stage, heir) == [1, 2]
    assert {(await stage.run(one))["status"] for one in (heir, *others)} == {"completed"}
    await stage.do("replay", leader)
    await stage.play()
    await stage.pass_time()
    await stage.play()
    assert await _items(stage, leader) == [0]
    assert (await stage.run(leader))["status"] == "completed"
    await stage.sound()

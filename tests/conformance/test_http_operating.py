"""The clauses about what operators look after, met through the HTTP API, each through a real socket."""

from functools import partial
from typing import Any

import pytest

from tests.conformance.outbox import Outbox, faults
from tests.conformance.test_templates import sent
from tests.support import flows
from tests.support.caller import Caller, make_key
from tests.support.program import Program
from tests.support.waits import until

# Two workspaces of one tenant: what is paused in one goes on in the other.
PAUSED, BESIDE = "paused", "beside"
BRISK = {"DISPATCHER_JANITOR__INTERVAL_SECONDS": "0.1"}
SLOW = faults("sms", latency=1, latency_seconds=0.02) | {"DISPATCHER_CHANNELS__SMS__MARKED_MAX": "5"}


async def test_TE_01_templates_are_drafted_published_and_frozen_over_http(program: Program, outbox: Outbox) -> None:
    await program.start()
    manager, admin = (Caller(program, make_key(program, role)) for role in ("workflowManager", "systemAdmin"))
    said = {"en": {"parts": {"body": "Hello {{ name }}"}}, "de": {"parts": {"body": "Hallo {{ name }}"}}}
    first = {"channel": "sms", "default_locale": "en", "locales": said}
    assert manager.call("PUT", "/templates/welcome", first).json["version"] == 1
    order = {"channel": "sms", "recipient": "+4917012345", "template_name": "welcome", "variables": {"name": "Ann"}}
    drafted = admin.post("/deliveries", order | {"idempotency_key": "draft"})
    assert "has no published version" in drafted.json["detail"]
    assert manager.post("/templates/welcome/publish", {}).json["published"] == 1
    later = {"idempotency_key": "later", "scheduled_for": "2040-01-01T00:00:00Z", "locale": "de-AT"}
    frozen = admin.post("/deliveries", order | later).json["id"]
    second = first | {"locales": {"en": {"parts": {"body": "Good day {{ name }}"}}}, "publish": True}
    assert manager.call("PUT", "/templates/welcome", second).json["published"] == 2
    fresh = admin.post("/deliveries", order | {"idempotency_key": "now", "locale": "de-AT"}).json["id"]
    assert await sent(program, outbox, fresh) == {"body": "Good day Ann"}
    now = {"run_at": "2020-01-01T00:00:00Z", "reason": "in time"}
    assert admin.post(f"/deliveries/{frozen}/move", now).status == 200
    assert await sent(program, outbox, frozen) == {"body": "Hallo Ann"}


async def _flow(outbox: Outbox, number: int) -> None:
    """More than are sent while a test waits, by turns of both workspaces."""
    rows = """INSERT INTO dispatcher.deliveries
                     (idempotency_key, channel, recipient, template, tenant_id, workspace_id, template_name)
              SELECT 'flow-' || n, 'sms', '+4917012345', '{"body": "x"}', 'acme', w, 'welcome'
                FROM generate_series(1, $1::int) AS n, unnest($2::text[]) AS w ORDER BY n, w"""
    await outbox.connection.execute(rows, number, [PAUSED, BESIDE])


async def _gone(outbox: Outbox, workspace: str) -> int:
    """How many of a workspace were given to the provider."""
    query = """SELECT count(*) FROM dispatcher.captured_messages m JOIN dispatcher.deliveries d ON d.id = m.delivery_id
                WHERE d.workspace_id = $1"""
    return int(await outbox.connection.fetchval(query, workspace))


async def _until_gone(outbox: Outbox, workspace: str, number: int) -> None:
    async def enough() -> bool:
        return await _gone(outbox, workspace) >= number

    await until(enough, f"{number} of {workspace} are sent")


def _pause(caller: Caller, **said: object) -> Any:
    answer = caller.post("/pauses", {"reason": "wrong prices"} | said)
    assert answer.status == 201, answer
    return answer.json


@pytest.mark.parametrize("said", [("workspace", None), ("channel", "sms"), ("template", "welcome")], ids=str)
async def test_OB_21_what_is_paused_in_a_workspace_stops_within_a_second_and_goes_on_beside_it(
    program: Program, outbox: Outbox, said: tuple[str, str | None]
) -> None:
    await program.start(**BRISK, **SLOW)
    admin = Caller(program, make_key(program, "systemAdmin", "acme", PAUSED))
    await _flow(outbox, 1_500)
    await _until_gone(outbox, PAUSED, 20)
    pause = _pause(admin, scope=said[0], **({} if said[1] is None else {"name": said[1]}))["id"]
    aged = "SELECT now() - since > interval '1.2 seconds' FROM dispatcher.pauses WHERE id = $1"
    await until(partial(outbox.connection.fetchval, aged, pause), "the pause has lasted a while")
    late = """SELECT extract(epoch FROM max(m.captured_at) - max(p.since))::float8
                FROM dispatcher.pauses p, dispatcher.captured_messages m, dispatcher.deliveries d
               WHERE d.id = m.delivery_id AND p.id = $1 AND d.workspace_id = $2"""
    assert await outbox.connection.fetchval(late, pause, PAUSED) < 1.0
    stopped = await _gone(outbox, PAUSED)
    await _until_gone(outbox, BESIDE, await _gone(outbox, BESIDE) + 50)
    assert await _gone(outbox, PAUSED) == stopped
    assert admin.post(f"/pauses/{pause}/resume", {"reason": "x"}).json["resumed"] is True
    await _until_gone(outbox, PAUSED, stopped + 20)


async def test_OB_21_a_pause_made_over_http_survives_a_restart_and_says_who_and_why(
    program: Program, second: Program, outbox: Outbox
) -> None:
    await program.start(**BRISK)
    key = make_key(program, "systemAdmin", "acme", PAUSED)
    pause = _pause(Caller(program, key), scope="workspace")["id"]
    assert await program.stop() == 0
    await _flow(outbox, 20)
    await second.start(**BRISK)
    await _until_gone(outbox, BESIDE, 20)
    assert await _gone(outbox, PAUSED) == 0
    admin = Caller(second, key)
    (row,) = admin.get("/pauses").json["pauses"]
    assert (row["id"], row["scope"], row["name"], row["reason"]) == (pause, "workspace", PAUSED, "wrong prices")
    assert row["actor"].startswith("key systemAdmin.")
    assert admin.post(f"/pauses/{pause}/resume", {"reason": "x"}).status == 200
    await _until_gone(outbox, PAUSED, 20)
    ended = await outbox.connection.fetchval("SELECT ended_by FROM dispatcher.pauses WHERE id = $1", pause)
    assert ended == row["actor"]


async def test_OB_21_only_operators_pause_what_is_everybodys(program: Program, outbox: Outbox) -> None:
    await program.start(**BRISK, **SLOW)
    operator = Caller(program, make_key(program))
    admin = Caller(program, make_key(program, "systemAdmin", "acme", PAUSED))
    everywhere = {"scope": "channel", "name": "sms", "everywhere": True, "reason": "the carrier is down"}
    assert admin.post("/pauses", everywhere).status == 403
    pause = operator.post("/pauses", everywhere).json["id"]
    await _flow(outbox, 5)
    (row,) = admin.get("/pauses").json["pauses"]
    assert (row["id"], row["tenant_id"], row["reason"]) == (pause, None, "the carrier is down")
    assert admin.post(f"/pauses/{pause}/resume", {"reason": "x"}).status == 403
    assert await _gone(outbox, PAUSED) == await _gone(outbox, BESIDE) == 0
    assert operator.post(f"/pauses/{pause}/resume", {"reason": "x"}).status == 200
    for workspace in (PAUSED, BESIDE):
        await _until_gone(outbox, workspace, 5)


def _sweep(caller: Caller, path: str, **said: object) -> tuple[int, list[dict[str, Any]]]:
    """Do it to all, with as many requests as it takes: how many it was done to, and every answer."""
    answers: list[dict[str, Any]] = []
    cursor: dict[str, str] = {}
    while True:
        answer = caller.post(path, {"reason": "the carrier is back"} | said | cursor)
        assert answer.status == 200, answer
        answers.append(answer.json)
        if answer.json["next_cursor"] is None:
            return sum(one["done"] for one in answers), answers
        cursor = {"cursor": answer.json["next_cursor"]}


async def test_WF_18_dead_letters_are_replayed_and_discarded_by_filter(program: Program, outbox: Outbox) -> None:
    await program.start(**faults("sms", refuse=1), **faults("voice", refuse=1))
    await flows.put(outbox.connection)
    operator = Caller(program, make_key(program, "triggerOperator"))
    foreign = Caller(program, make_key(program, "systemAdmin", "acme"))
    by_sms, by_voice = await outbox.fill(5), await outbox.fill(2, "voice")
    runs = [operator.post("/workflows/welcome/triggers", {}).json["execution_id"] for _ in range(3)]

    def dead(many: str, which: str = "") -> set[int]:
        return {one["id"] for one in operator.get(f"/dead-letters/{many}?limit=100{which}").json["dead_letters"]}

    await program.until(lambda: dead("deliveries") == {*by_sms, *by_voice}, "all deliveries are dead letters")
    await program.until(lambda: dead("runs") == set(runs), "all runs are dead letters")
    assert dead("deliveries", "&channel=voice") == set(by_voice)
    assert dead("deliveries", f"&before={by_voice[0]}") == set(by_sms)
    assert (dead("runs", "&name=welcome"), dead("runs", "&name=other")) == (set(runs), set())
    for many, everything in (("runs", set(runs)), ("deliveries", {*by_sms, *by_voice})):
        for earlier, later in (("since", "until"), ("until", "since")):
            at = "2020-01-01T00:00:00Z" if earlier == "since" else "2040-01-01T00:00:00Z"
            assert (dead(many, f"&{earlier}={at}"), dead(many, f"&{later}={at}")) == (everything, set())
        for verb in ("replay", "discard"):
            assert _sweep(foreign, f"/dead-letters/{many}/{verb}")[0] == 0
    done, answers = _sweep(operator, "/dead-letters/deliveries/discard", channel="voice", limit=1)
    assert (done, [one["done"] for one in answers]) == (2, [1, 1])
    assert dead("deliveries") == set(by_sms)
    assert _sweep(operator, "/dead-letters/deliveries/replay", error="nothing like it")[0] == 0
    # Each fails again at once, and is met once all the same.
    done, answers = _sweep(operator, "/dead-letters/deliveries/replay", channel="sms", limit=2)
    assert (done, [one["done"] for one in answers]) == (5, [2, 2, 1])
    replayed = (
        "SELECT count(*) FROM dispatcher.operator_actions WHERE action = 'reopen' AND reason = 'the carrier is back'"
    )
    assert await outbox.connection.fetchval(replayed) == 5
    assert _sweep(operator, "/dead-letters/runs/replay", name="welcome", limit=2)[0] == 3

    def again() -> bool:
        return all(operator.get(f"/runs/{run}").json["retry_count"] == 1 for run in runs) and dead("runs") == set(runs)

    await program.until(again, "all runs have failed again")
    assert _sweep(operator, "/dead-letters/runs/discard")[0] == 3
    assert dead("runs") == set()


async def test_OB_12_held_deliveries_are_resolved_by_filter(program: Program, outbox: Outbox) -> None:
    await program.start(**faults("sms", unknown=1), **faults("voice", unknown=1))
    operator = Caller(program, make_key(program, "triggerOperator"))
    foreign = Caller(program, make_key(program, "systemAdmin", "default", "other"))
    by_sms, by_voice = await outbox.fill(5), await outbox.fill(2, "voice")
    await outbox.until_count(7, "held")
    assert {one["id"] for one in operator.get("/held?channel=voice").json["held"]} == set(by_voice)
    assert _sweep(foreign, "/held/resolve", settle_as="sent")[0] == 0
    done, answers = _sweep(operator, "/held/resolve", settle_as="requeue", channel="sms", limit=2)
    assert (done, [one["done"] for one in answers]) == (5, [2, 2, 1])
    await outbox.until_count(7, "held")
    assert [(await outbox.row(one))["attempts"] for one in by_sms] == [2] * 5
    assert _sweep(operator, "/held/resolve", settle_as="failed", channel="voice")[0] == 2
    assert {(await outbox.row(one))["status"] for one in by_voice} == {"failed"}
    later = "UPDATE dispatcher.delivery_state SET settle_after = now() + interval '1 hour' WHERE id = $1"
    await outbox.connection.execute(later, by_sms[0])
    done, (answer,) = _sweep(operator, "/held/resolve", settle_as="sent")
    assert (done, answer["not_done"], answer["refused"][0]["id"]) == (4, 1, by_sms[0])
    assert (answer["refused"][0]["answer"], "may still be going on" in answer["refused"][0]["message"]) == (
        "early",
        True,
    )

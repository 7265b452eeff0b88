"""OP-11: the people of a workspace, what each was sent and why, and how everything of one is exported and erased."""

from tests.conformance.flows import Flows, line, node
from tests.support import flows
from tests.support.caller import Caller, delivery, make_key
from tests.support.program import Program
from tests.support.scene import Connection
from tests.support.traces import traces

ANN = "ann@example.org"
LATER = "2040-01-01T00:00:00Z"
MAIL = {"channel": "email", "recipient": "Ann@Example.org", "template": {"subject": "For {{ name }}", "text": "Hi"}}
QUICK = {"DISPATCHER_JANITOR__INTERVAL_SECONDS": "0.2"}


def _mail(key: str, **fields: object) -> dict[str, object]:
    """A mail to her."""
    return {"idempotency_key": key, "variables": {"name": "Ann Lee"}} | MAIL | fields


async def _known(program: Program, connection: Connection) -> Caller:
    """A program in which there is everything of a person that there can be."""
    await program.start(**QUICK)
    admin = Caller(program, make_key(program))
    await flows.put(connection)
    assert admin.call("PUT", "/contacts/ann", {"name": "Ann Lee", "addresses": [{"address": ANN}]}).status == 201
    assert admin.post("/deliveries", _mail(f"welcome of {ANN}"), idempotency_key=f"once-{ANN}").status == 201
    assert admin.post("/deliveries", _mail("reminder", scheduled_for=LATER)).status == 201
    given = {"input": {"mail": ANN, "name": "Ann Lee"}, "idempotency_key": f"signup of {ANN}"}
    assert admin.post("/workflows/welcome/triggers", given).status in (200, 201)

    def sent() -> bool:
        return [one["life"] for one in _timeline(admin)[::-1]] == ["sent", "pending"]

    await program.until(sent, "the first one is sent")
    out = program.run("suppressions", "add", ANN, "--source", "unsubscribe", "--reason", "Ann Lee said so")
    assert out.returncode == 0, out.stderr
    return admin


def _timeline(admin: Caller) -> list[dict[str, str]]:
    entries: list[dict[str, str]] = admin.get(f"/persons/timeline?address={ANN}").json["entries"]
    return entries


async def test_OP_11_a_timeline_shows_every_message_and_why(program: Program, connection: Connection) -> None:
    admin = await _known(program, connection)

    def told() -> bool:
        return [one["kind"] for one in _timeline(admin)] == ["suppress", "delivery", "delivery"]

    await program.until(told, "it is all there")
    last, first = _timeline(admin)[1:]
    assert (first["life"], first["subject"]) == ("sent", "For Ann Lee")
    assert first["reason"] == f"an application wrote it with the key welcome of {ANN}"
    assert (last["life"], last["error"]) == ("skipped", "unsubscribed: from everything")


async def test_OP_11_a_timeline_says_which_run_has_ordered_a_message_and_who_that(
    program: Program, connection: Connection
) -> None:
    await program.start(**QUICK)
    await flows.put(connection)
    admin = Caller(program, make_key(program))
    run = admin.post("/workflows/welcome/triggers", {}).json["execution_id"]

    def reasons() -> list[str]:
        entries = admin.get("/persons/timeline?address=%2B4917012345").json["entries"]
        return [one["reason"] for one in entries]

    await program.until(reasons, "the message is there")
    by = admin.get(f"/runs/{run}").json["triggered_by"]
    assert by.startswith("key systemAdmin.")
    assert reasons() == [f"node mail of run {run} of the workflow welcome, triggered by {by}"]


async def test_OP_11_a_person_is_erased_everywhere_and_hashed_keys_remain(
    program: Program, connection: Connection
) -> None:
    admin = await _known(program, connection)
    assert await traces(connection, "ann lee")
    asked = admin.post("/erasures", {"contact": "ann", "reason": "by letter"})
    assert (asked.status, asked.json["finished_at"]) == (202, None)
    place = f"/erasures/{asked.json['id']}"
    await program.until(lambda: admin.get(place).json["finished_at"], "it is done")
    assert await traces(connection, ANN, "ann lee") == []
    assert admin.get(place).json["subjects"][0].startswith("sha256:")
    # The key still answers duplicate, over HTTP and in SQL, and so does the trigger's.
    again = admin.post("/deliveries", _mail(f"welcome of {ANN}"))
    assert (again.status, again.json["duplicate"]) == (200, True)
    kept = admin.post("/deliveries", _mail(f"welcome of {ANN}"), idempotency_key=f"once-{ANN}")
    assert (kept.status, kept.json["type"]) == (422, "urn:dispatcher:problem:answer-erased")
    run = admin.post("/workflows/welcome/triggers", {"input": {}, "idempotency_key": f"signup of {ANN}"}).json
    assert run["duplicate"]
    assert admin.get(f"/runs/{run['execution_id']}").json["status"] == "cancelled"
    # The opt-out still holds.
    number = admin.post("/deliveries", _mail("another")).json["id"]

    def skipped() -> bool:
        return bool(admin.get(f"/deliveries/{number}").json["status"] == "skipped")

    await program.until(skipped, "it is not sent")
    assert admin.get(f"/deliveries/{number}").json["error"] == "unsubscribed: from everything"
    assert admin.post("/deliveries", delivery("others")).status == 201
    assert not program.events("api.failed")


async def test_OP_11_what_a_digest_has_collected_of_a_person_is_erased_and_told_nobody(flows: Flows) -> None:
    several = node("several", "digest", key="{{ mail }}", window="1h")
    told = node("tell", "email", to="{{ mail }}", text="{{ several.count }} things", subject="Today")
    await flows.put(line("digest", several, told))
    first, *others = [await flows.trigger("digest", {"mail": ANN, "n": number}) for number in range(4)]
    # Whoever is cancelled leaves to another what others have left there; these have ended.
    await flows.until_at(first, "several")
    for run in others:
        await flows.until_status(run, "completed")
    erased = flows.program.run("contacts", "erase", ANN, "--reason", "by letter", "--yes")
    assert erased.returncode == 0, erased.stderr
    assert await traces(flows.connection, ANN) == []
    going_on = "SELECT count(*) FROM dispatcher.runs WHERE finished_at IS NULL"
    assert await flows.connection.fetchval(going_on) == 0

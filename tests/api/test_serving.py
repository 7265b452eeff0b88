"""Serving: what goes wrong while a request is served is answered in words, found in the log by its id, and undone."""

from tests.api.caller import Caller, delivery, make_key
from tests.program import Program
from tests.store import flows
from tests.store.scene import Connection

BROKEN = """CREATE FUNCTION public.break() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'the secret is hunter2'; END $$;
            CREATE TRIGGER break BEFORE INSERT ON dispatcher.deliveries FOR EACH ROW EXECUTE FUNCTION public.break()"""


async def test_a_bug_is_in_the_log_under_the_id_of_its_request(program: Program, connection: Connection) -> None:
    await program.start()
    await connection.execute(BROKEN)
    answer = Caller(program, make_key(program)).post("/deliveries", delivery("one"), x_request_id="trace-17")
    assert (answer.status, answer.json["type"]) == (500, "urn:dispatcher:problem:internal-error")
    assert (answer.headers["x-request-id"], answer.json["request_id"]) == ("trace-17", "trace-17")
    assert "trace-17" in answer.json["detail"]
    assert b"hunter2" not in answer.body
    (line,) = program.events("api.failed")
    assert (line["request_id"], line["operation"]) == ("trace-17", "createDelivery")


async def test_what_takes_too_long_is_given_up_and_undone(program: Program, connection: Connection) -> None:
    await program.start(DISPATCHER_API__REQUEST_SECONDS_MAX="1")
    await flows.put(connection)
    caller = Caller(program, make_key(program))
    run = caller.post("/workflows/welcome/triggers", {}).json["execution_id"]
    async with connection.transaction():
        await connection.execute("SELECT FROM dispatcher.runs WHERE id = $1 FOR UPDATE", run)
        answer = caller.post(f"/runs/{run}/pause", {"reason": "x"})
        assert (answer.status, answer.json["type"]) == (504, "urn:dispatcher:problem:slow")
    assert "paused" not in {one["event"] for one in caller.get(f"/runs/{run}/log").json["entries"]}
    assert caller.post(f"/runs/{run}/pause", {"reason": "x"}).status == 200

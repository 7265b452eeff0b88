"""Serving: what goes wrong while a request is served is answered in words, found in the log by its id, and undone."""

from tests.support.caller import Caller, delivery, make_key
from tests.support.program import Program
from tests.support.scene import Connection

BROKEN = """CREATE FUNCTION public.break() RETURNS trigger LANGUAGE plpgsql AS
            $$ BEGIN RAISE EXCEPTION 'the secret is hunter2'; END $$;
            CREATE TRIGGER break BEFORE INSERT ON dispatcher.deliveries FOR EACH ROW EXECUTE FUNCTION public.break()"""

# Each statement keeps to the limit of one; both together do not.
SLOW = """CREATE FUNCTION public.dawdle() RETURNS trigger LANGUAGE plpgsql AS
          $$ BEGIN PERFORM pg_sleep(1.8); RETURN NEW; END $$;
          CREATE TRIGGER slow BEFORE INSERT ON dispatcher.deliveries FOR EACH ROW EXECUTE FUNCTION public.dawdle();
          CREATE TRIGGER slow BEFORE INSERT ON dispatcher.api_answers FOR EACH ROW EXECUTE FUNCTION public.dawdle()"""


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


async def test_a_request_over_its_time_is_rolled_back(program: Program, connection: Connection) -> None:
    await program.start(DISPATCHER_API__REQUEST_SECONDS_MAX="3")
    await connection.execute(SLOW)
    caller = Caller(program, make_key(program))
    answer = caller.post("/deliveries", delivery("slow"), idempotency_key="once")
    assert (answer.status, answer.json["type"]) == (504, "urn:dispatcher:problem:slow")
    await connection.execute("DROP FUNCTION public.dawdle CASCADE")
    assert caller.get("/deliveries").json["deliveries"] == []
    assert caller.post("/deliveries", delivery("slow"), idempotency_key="once").status == 201

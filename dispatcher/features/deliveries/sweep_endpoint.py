"""One action on all deliveries that match a filter: they are cancelled, moved or sent again, page by page."""

from collections.abc import Sequence

from dispatcher.base.errors import Fault
from dispatcher.features.deliveries import models, search, store
from dispatcher.features.deliveries.rules import STOPPED, delivery_sentence
from dispatcher.http.bulk import GOES_ON, SWEPT, NotDone, sweep
from dispatcher.http.cursors import cursor, read_id
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.problems import faulty
from dispatcher.http.roles import Right

NOUN = "swept_deliveries"


@endpoint(
    "POST",
    "/deliveries/sweep",
    Right.DELIVERIES,
    given=models.SweepDeliveries,
    example={"action": "retry", "life": "failed", "error": "550", "reason": "the address is right now"},
    answered=SWEPT,
    description=f"{GOES_ON} The newest go first; deliveries that are written after the first request are left alone.",
)
async def sweep_deliveries(call: Call) -> Done:
    """Cancel, move or retry all deliveries that match a filter, as many as one request may."""
    asked: models.SweepDeliveries = call.given
    if (asked.run_at is None) == (asked.action == "move"):
        words = "is missing: move needs a time" if asked.action == "move" else f"is not of {asked.action}: leave it out"
        raise faulty([Fault("$.run_at", words)])
    ids, end = await search.ids(call.database, call.part, asked.query(), read_id(NOUN, asked.cursor, "$.cursor"))

    async def act(page: Sequence[int]) -> list[NotDone]:
        answers = await store.act(call.database, asked.action, page, call.actor, asked.reason, asked.run_at)
        told = ((one, answers.get(one, "unknown")) for one in page)
        said = ((one, answer, *delivery_sentence(asked.action, one, answer)) for one, answer in told)
        return [NotDone(one, answer, words) for one, answer, done, words in said if not done and answer != STOPPED]

    return Done(await sweep(ids, act, None if end is None else cursor(NOUN, end)))

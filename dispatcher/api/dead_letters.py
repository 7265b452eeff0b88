"""Dead letters over HTTP: which they are, and replaying and discarding one."""

import msgspec

from dispatcher.api import models
from dispatcher.api.cursors import below, cursor
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.problems import CONFLICT, NOT_FOUND, Problem, not_found
from dispatcher.domain.answers import NO_LETTER, letter_sentence
from dispatcher.domain.roles import Right
from dispatcher.store import dead, deliveries, runs
from dispatcher.store.dead import Filter, Kind, Verb


def _listing(kind: Kind) -> Endpoint:
    noun = "dead_runs" if kind == "run" else "dead_deliveries"

    async def list_(call: Call) -> Done:
        asked: models.LetterQuery = call.query
        meant = Filter(
            name=asked.name,
            channel=asked.channel,
            tenant_id=call.workspace.tenant_id,
            workspace_id=call.workspace.workspace_id,
            since=asked.since,
            until=asked.until,
            error=asked.error,
        )
        ids = await dead.page(call.database, meant, kind, min(below(noun, asked.cursor), asked.before), asked.limit + 1)
        page = ids[: asked.limit]
        more = cursor(noun, page[-1]) if len(ids) > asked.limit else None
        found = await dead.rows(call.database, kind, page)
        return Done(models.Letters([msgspec.convert(row, models.Letter) for row in found], more))

    many = "runs" if kind == "run" else "deliveries"
    return Endpoint(
        operation=f"listDead{many.capitalize()}",
        method="GET",
        path=f"/dead-letters/{many}",
        right=Right.DEAD_LETTERS,
        summary=f"List {many} that have failed for good, the newest first",
        query=models.LetterQuery,
        answer=models.Letters,
        handle=list_,
    )


def _acting(kind: Kind, verb: Verb) -> Endpoint:
    owner = runs.owner if kind == "run" else deliveries.owner
    many = "runs" if kind == "run" else "deliveries"
    does = "Discard it: it stays failed" if verb == "discard" else "Try it again; what was sent is not sent again"

    async def act(call: Call) -> Done:
        number = call.number(f"{kind}_id", kind)
        if not call.owns(await owner(call.database, number)):
            raise not_found(f"{kind} {number}")
        answers = await dead.act(call.database, verb, kind, [number], call.given.reason, call.actor)
        answer = answers.get(number, NO_LETTER)
        done, words = letter_sentence(verb, kind, number, answer)
        if not done:
            raise Problem(CONFLICT, words, answer=answer)
        return Done(models.LetterActed(kind, number, answer, words))

    return Endpoint(
        operation=f"{verb}Dead{kind.capitalize()}",
        method="POST",
        path=f"/dead-letters/{many}/{{{kind}_id}}/{verb}",
        right=Right.DEAD_LETTERS,
        summary=does,
        given=models.Why,
        example={"reason": "the address is right now"},
        answer=models.LetterActed,
        problems=(NOT_FOUND, CONFLICT),
        handle=act,
    )


_KINDS: tuple[Kind, ...] = ("run", "delivery")
_VERBS: tuple[Verb, ...] = ("replay", "discard")
ENDPOINTS = (
    *(_listing(kind) for kind in _KINDS),
    *(_acting(kind, verb) for kind in _KINDS for verb in _VERBS),
)

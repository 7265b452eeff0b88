"""Dead letters over HTTP: which they are, and replaying and discarding one, or all that a filter matches."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from dispatcher.api import models
from dispatcher.api.cursors import ID_MAX, behind, below, cursor, microseconds, moment
from dispatcher.api.endpoints import Call, Done, Endpoint
from dispatcher.api.listing import cut
from dispatcher.api.problems import CONFLICT, NOT_FOUND, Problem, not_found
from dispatcher.api.sweep_models import Refused, SweepLetters, Swept
from dispatcher.api.sweeping import GOES_ON, sweep
from dispatcher.domain.answers import NO_LETTER, letter_sentence
from dispatcher.domain.roles import Right
from dispatcher.store import dead, deliveries, runs, times
from dispatcher.store.dead import Filter, Kind, Verb


def _filter(call: Call, asked: models.LetterQuery | SweepLetters, until: datetime | None) -> Filter:
    """Letters of the workspace that the key opens."""
    return Filter(
        name=asked.name,
        channel=asked.channel,
        tenant_id=call.workspace.tenant_id,
        workspace_id=call.workspace.workspace_id,
        since=asked.since,
        until=until,
        error=asked.error,
    )


def _listing(kind: Kind) -> Endpoint:
    noun = "dead_runs" if kind == "run" else "dead_deliveries"

    async def list_(call: Call) -> Done:
        asked: models.LetterQuery = call.query
        meant = _filter(call, asked, asked.until)
        start = min(below(noun, asked.cursor), asked.before)
        ids = await dead.page(call.database, meant, kind, start, asked.limit + 1)
        some, more = cut(ids, asked.limit, lambda last: cursor(noun, last))
        found = await dead.rows(call.database, kind, some)
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


def _sweeping(kind: Kind, verb: Verb) -> Endpoint:
    many = "runs" if kind == "run" else "deliveries"
    noun = f"{verb}_{many}"

    async def act_on_all(call: Call) -> Done:
        asked: SweepLetters = call.given
        if asked.cursor is None:
            place, begun = ID_MAX, await times.now(call.database)
        else:
            place, number = behind(noun, asked.cursor, 2, "$.cursor")
            begun = moment(number)
        # What fails later is left alone.
        until = begun if asked.until is None else min(begun, asked.until)
        ids = await dead.page(call.database, _filter(call, asked, until), kind, place, asked.limit + 1)
        some, more = cut(ids, asked.limit, lambda last: cursor(noun, last, microseconds(begun)))

        async def act(page: Sequence[int]) -> list[Refused | None]:
            answers = await dead.act(call.database, verb, kind, page, asked.reason, call.actor)
            return [_refused(verb, kind, one, answers.get(one, NO_LETTER)) for one in page]

        return Done(await sweep(some, act, more))

    does = "Discard" if verb == "discard" else "Replay"
    return Endpoint(
        operation=f"{verb}Dead{many.capitalize()}",
        method="POST",
        path=f"/dead-letters/{many}/{verb}",
        right=Right.DEAD_LETTERS,
        summary=f"{does} all of the dead {many} that a filter matches, as many as one request may",
        description=f"{GOES_ON} What fails after the first of them is left alone.",
        given=SweepLetters,
        example={"reason": "the carrier is back", "error": "exhausted", "limit": 500},
        answer=Swept,
        handle=act_on_all,
    )


def _refused(verb: Verb, kind: Kind, number: int, answer: str) -> Refused | None:
    done, words = letter_sentence(verb, kind, number, answer)
    return None if done else Refused(number, answer, words)


_KINDS: tuple[Kind, ...] = ("run", "delivery")
_VERBS: tuple[Verb, ...] = ("replay", "discard")
ENDPOINTS = (
    *(_listing(kind) for kind in _KINDS),
    *(_acting(kind, verb) for kind in _KINDS for verb in _VERBS),
    *(_sweeping(kind, verb) for kind in _KINDS for verb in _VERBS),
)

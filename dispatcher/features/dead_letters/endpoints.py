"""Dead letters over HTTP: listed; replayed and discarded one by one, or all that match a filter."""

from collections.abc import Sequence

import msgspec

from dispatcher.db import timestamps
from dispatcher.features.dead_letters import models, store
from dispatcher.features.dead_letters.models import JOBS_AT_ONCE, KINDS, MANY, VERBS, Kind, Verb
from dispatcher.features.deliveries import store as deliveries
from dispatcher.features.deliveries.rules import NOT_DEAD, dead_letter_sentence
from dispatcher.features.runs import store as runs
from dispatcher.http.bulk import GOES_ON, SWEPT, NotDone, Swept, sweep
from dispatcher.http.cursors import ID_MAX, cursor, microseconds, moment, read_id, read_numbers
from dispatcher.http.endpoints import Call, Done, Endpoint
from dispatcher.http.listing import cut
from dispatcher.http.models import Why
from dispatcher.http.problems import CONFLICT, NOT_FOUND, Problem, not_found
from dispatcher.http.roles import Right

# Groups are counted among so many, and the largest are shown.
COUNTED_MAX = 2_000
GROUPS_MAX = 50
_OWNERS = {"run": runs.owner, "delivery": deliveries.owner, "job": store.job_owner}


def _listing(kind: Kind) -> Endpoint:
    many, noun = MANY[kind], f"dead_{MANY[kind]}"

    async def list_(call: Call) -> Done:
        asked: models.DeadLetterQuery = call.query
        scope = call.part.tenant_id, call.part.workspace_id
        start = min(read_id(noun, asked.cursor), asked.before)
        ids, end = await store.page(call.database, kind, scope, asked, asked.until, below=start, count=asked.limit + 1)
        some, more = cut(ids, asked.limit, lambda last: cursor(noun, last))
        more = cursor(noun, end) if more is None and end is not None else more
        found = await store.rows(call.database, kind, some)
        return Done(models.DeadLetters([msgspec.convert(row, models.DeadLetter) for row in found], more))

    return Endpoint(
        operation=f"listDead{many.capitalize()}",
        method="GET",
        path=f"/dead-letters/{many}",
        right=Right.DEAD_LETTERS,
        summary=f"List {many} that have failed for good, the newest first",
        query=models.DeadLetterQuery,
        answer=models.DeadLetters,
        answered=models.DEAD_LETTERS,
        handle=list_,
    )


def _grouping(kind: Kind) -> Endpoint:
    many = MANY[kind]

    async def groups(call: Call) -> Done:
        asked: models.DeadLetterFilter = call.query
        scope = call.part.tenant_id, call.part.workspace_id
        if kind == "delivery":
            rows = await store.group_deliveries(call.database, scope, asked, ID_MAX, COUNTED_MAX, GROUPS_MAX)
            counted = rows[0]["counted"] if rows else 0
            is_all = counted < COUNTED_MAX and all(row["is_all"] for row in rows)
        else:
            page = store.page(call.database, kind, scope, asked, asked.until, below=ID_MAX, count=COUNTED_MAX + 1)
            ids, _ = await page
            rows = await store.groups(call.database, kind, ids[:COUNTED_MAX], GROUPS_MAX)
            counted, is_all = min(len(ids), COUNTED_MAX), len(ids) <= COUNTED_MAX
        found = [msgspec.convert(row, models.DeadLetterGroup) for row in rows]
        return Done(models.DeadLetterGroups(groups=found, counted=counted, is_all=is_all))

    return Endpoint(
        operation=f"listDead{kind.capitalize()}Groups",
        method="GET",
        path=f"/dead-letters/{many}/groups",
        right=Right.DEAD_LETTERS,
        summary=f"List the largest groups of dead {many} with the same error",
        query=models.DeadLetterFilter,
        answer=models.DeadLetterGroups,
        answered=models.DEAD_LETTER_GROUPS,
        handle=groups,
    )


def _acting(verb: Verb, kind: Kind) -> Endpoint:
    owner = _OWNERS[kind]
    does = "Discard it: it stays failed" if verb == "discard" else "Try it again; what was sent is not sent again"

    async def act(call: Call) -> Done:
        number = call.number(f"{kind}_id", kind)
        if not call.owns(await owner(call.database, number)):
            raise not_found(f"{kind} {number}")
        answers = await store.act(call.database, verb, kind, [number], call.given.reason, call.actor)
        answer = answers.get(number, NOT_DEAD)
        done, words = dead_letter_sentence(verb, kind, number, answer)
        if not done:
            raise Problem(CONFLICT, words, answer=answer)
        return Done(models.DeadLetterActed(kind, number, answer, words))

    return Endpoint(
        operation=f"{verb}Dead{kind.capitalize()}",
        method="POST",
        path=f"/dead-letters/{MANY[kind]}/{{{kind}_id}}/{verb}",
        right=Right.DEAD_LETTERS,
        summary=does,
        given=Why,
        example={"reason": "the address is right now"},
        answer=models.DeadLetterActed,
        answered=models.DEAD_LETTER_ACTED,
        problems=(NOT_FOUND, CONFLICT),
        handle=act,
    )


def _sweeping(verb: Verb, kind: Kind) -> Endpoint:
    many, noun = MANY[kind], f"{verb}_{MANY[kind]}"

    async def act_on_all(call: Call) -> Done:
        asked: models.SweepDeadLetters = call.given
        if asked.cursor is None:
            place, begun = ID_MAX, await timestamps.now(call.database)
        else:
            place, number = read_numbers(noun, asked.cursor, 2, "$.cursor")
            begun = moment(number)
        # Later failures are left alone.
        until = begun if asked.until is None else min(begun, asked.until)
        scope = call.part.tenant_id, call.part.workspace_id
        limit = min(asked.limit, JOBS_AT_ONCE) if kind == "job" else asked.limit
        ids, end = await store.page(call.database, kind, scope, asked, until, below=place, count=limit + 1)
        some, more = cut(ids, limit, lambda last: cursor(noun, last, microseconds(begun)))
        more = cursor(noun, end, microseconds(begun)) if more is None and end is not None else more

        async def act(page: Sequence[int]) -> list[NotDone]:
            answers = await store.act(call.database, verb, kind, page, asked.reason, call.actor)
            told = ((one, answers.get(one, NOT_DEAD)) for one in page)
            said = ((one, answer, *dead_letter_sentence(verb, kind, one, answer)) for one, answer in told)
            return [NotDone(one, answer, words) for one, answer, done, words in said if not done]

        return Done(await sweep(some, act, more))

    return Endpoint(
        operation=f"{verb}Dead{many.capitalize()}",
        method="POST",
        path=f"/dead-letters/{many}/{verb}",
        right=Right.DEAD_LETTERS,
        summary=f"{verb.capitalize()} all of the dead {many} that match a filter, as many as one request may",
        description=f"{GOES_ON} Failures after the first request are left alone.",
        given=models.SweepDeadLetters,
        example={"reason": "the carrier is back", "error": "exhausted", "limit": 500},
        answer=Swept,
        answered=SWEPT,
        handle=act_on_all,
    )


GROUPS = {kind: _grouping(kind) for kind in KINDS}
LIST = {kind: _listing(kind) for kind in KINDS}
ACT = {(verb, kind): _acting(verb, kind) for kind in KINDS for verb in VERBS}
ACT_ON_ALL = {(verb, kind): _sweeping(verb, kind) for kind in KINDS for verb in VERBS}
ENDPOINTS = (*LIST.values(), *GROUPS.values(), *ACT.values(), *ACT_ON_ALL.values())

"""Dead letters: runs, deliveries and jobs that have failed for good, grouped by error; replayed and discarded."""

from typing import Any

from dispatcher.console import bulk
from dispatcher.console.page import Answer, Form, Page, Visit, form, page
from dispatcher.features.dead_letters.endpoints import ACT, ACT_ON_ALL, GROUPS, LIST
from dispatcher.features.dead_letters.models import KINDS, MANY, VERBS, Kind, Verb
from dispatcher.http.roles import Right

ROWS = 50
FILTERS = ("name", "channel", "error", "since", "until")
WORDS = {
    "replay": "What was sent is not sent again. A run goes on where it failed.",
    "discard": "It stays failed, and is no dead letter any more.",
}


def _listing(kind: Kind) -> Page:
    @page(f"/dead/{MANY[kind]}", Right.DEAD_LETTERS, section="held")
    async def dead(visit: Visit) -> Answer:
        meant = _filter(visit)
        groups = await visit.ask(GROUPS[kind], query=meant)
        found = await visit.ask(LIST[kind], query={"limit": ROWS, "cursor": visit.query.get("cursor"), **meant})
        channels = sorted(visit.config().channels)
        return visit.show(
            "messages/dead_letters.html", kind=kind, many=MANY[kind], groups=groups, found=found, channels=channels
        )

    return dead


def _filter(visit: Visit) -> dict[str, str]:
    return {name: visit.query[name] for name in FILTERS if visit.query.get(name)}


def _acting(verb: Verb, kind: Kind) -> Page:
    @form(f"/dead/{MANY[kind]}/{{{kind}_id}}/{verb}", ACT[verb, kind], section="held")
    async def act(visit: Visit) -> Form:
        return Form(
            title=f"{verb.capitalize()} {kind} {visit.path[f'{kind}_id']}?",
            text=WORDS[verb],
            button=f"{verb.capitalize()} it",
            risk=verb == "discard",
            back=f"/dead/{MANY[kind]}",
        )

    return act


def _sweeping(verb: Verb, kind: Kind) -> Page:
    many = MANY[kind]

    @form(f"/dead/{many}/{verb}", ACT_ON_ALL[verb, kind], section="held")
    async def act_on_all(visit: Visit) -> Form:
        meant = _filter(visit)
        ids = bulk.selected(visit)

        async def act(visit: Visit, body: dict[str, Any]) -> bulk.Total:
            if ids:
                return await bulk.each(visit, ACT[verb, kind], ids, body)
            return await bulk.sweep(visit, ACT_ON_ALL[verb, kind], body | meant)

        return Form(
            title=f"{verb.capitalize()} {bulk.meant(ids, meant, f'dead {many}')}?",
            text=WORDS[verb],
            button=f"{verb.capitalize()} them",
            risk=verb == "discard",
            act=act,
            back=f"/dead/{many}",
        )

    return act_on_all


DEAD_RUNS, DEAD_DELIVERIES, DEAD_JOBS = (_listing(kind) for kind in KINDS)
REPLAY_RUN, REPLAY_DELIVERY, REPLAY_JOB = (_acting(VERBS[0], kind) for kind in KINDS)
DISCARD_RUN, DISCARD_DELIVERY, DISCARD_JOB = (_acting(VERBS[1], kind) for kind in KINDS)
REPLAY_RUNS, REPLAY_DELIVERIES, REPLAY_JOBS = (_sweeping(VERBS[0], kind) for kind in KINDS)
DISCARD_RUNS, DISCARD_DELIVERIES, DISCARD_JOBS = (_sweeping(VERBS[1], kind) for kind in KINDS)

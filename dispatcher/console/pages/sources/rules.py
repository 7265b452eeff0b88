"""Rules: the list, one rule with its steps, switching it, and an explanation of what an event would do."""

import time
from typing import Any

import msgspec

from dispatcher.base.errors import Fault
from dispatcher.console.page import Answer, Page, Visit, page
from dispatcher.console.rendering import pretty
from dispatcher.console.switching import switch
from dispatcher.features.rules.endpoints import (
    delete_rule,
    disable_rule,
    enable_rule,
    get_rule,
    get_trigger,
    list_rules,
    list_triggers,
)
from dispatcher.features.rules.event_endpoints import explain
from dispatcher.features.rules.models import Decision, EventTrigger, Explained
from dispatcher.http.endpoints import Endpoint
from dispatcher.http.problems import FAULTY, Problem, faulty
from dispatcher.http.roles import Right

ROWS = 50
# Fields of an event; everything else that is written beside them is a variable.
_FIELDS = ("lead", "partner", "agent", "event_at")
# How a decision looks.
_STATES = {"scheduled": "sent", "skipped": "skipped", "suppressed": "parked", "fallback": "sending", "none": "none"}
_FAILED = "the rule failed"


@page("/rules", Right.RULES)
async def rules(visit: Visit) -> Answer:
    """List rules by name."""
    meant = {name: visit.query.get(name) for name in ("trigger", "cursor")}
    found = await visit.ask(list_rules, query={"limit": ROWS, **meant})
    names = [one.name for one in (await visit.ask(list_triggers)).triggers]
    return visit.show("sources/rules.html", found=found, triggers=names)


@page("/rules/{name}", Right.RULES)
async def rule(visit: Visit) -> Answer:
    """Show a rule, and what its trigger promises."""
    found = await visit.ask(get_rule)
    trigger: EventTrigger = await visit.ask(get_trigger, found.trigger)
    fallback = next(
        (one.fallback for one in trigger.pairs if (one.channel, one.audience) == (found.channel, found.audience)),
        "none",
    )
    return visit.show("sources/rule.html", one=found, trigger=trigger, fallback=fallback)


def _switch(verb: str, asks: Endpoint, text: str) -> Page:
    return switch(
        f"/rules/{{name}}/{verb}",
        asks,
        title=f"{verb.capitalize()} the rule {{name}}?",
        text=f"One rule. {text}",
        button=f"{verb.capitalize()} it",
        done=f"{{name}} is {verb}d.",
        gone=asks is delete_rule,
    )


ENABLE = _switch("enable", enable_rule, "Events are sent by it from now on.")
DISABLE = _switch("disable", disable_rule, "Its channel is suppressed for its audience, without a fallback.")
DELETE = _switch("delete", delete_rule, "What happens without a rule takes its place.")


async def _show_explain(visit: Visit) -> Answer:
    return await _explained(visit, visit.query.get("trigger", ""), "")


async def _explain(visit: Visit) -> Answer:
    return await _explained(visit, visit.form.get("trigger", ""), visit.form.get("event", ""))


async def _explained(visit: Visit, name: str, text: str) -> Answer:
    """Show the form of an explanation, and its answer where an event is given."""
    triggers: list[EventTrigger] = (await visit.ask(list_triggers)).triggers
    trigger = next((one for one in triggers if one.name == name), triggers[0] if triggers else None)
    answer: Explained | None = None
    problem: Problem | None = None
    began = time.perf_counter()
    if text and trigger is not None:
        try:
            answer = await visit.ask(explain, body={"trigger": trigger.name, **_event(text)})
        except Problem as fault:
            if fault.kind is not FAULTY:
                raise
            problem = fault
    return visit.show(
        "sources/rules_explain.html",
        triggers=[one.name for one in triggers],
        trigger=trigger,
        event=text or ("{}" if trigger is None else pretty(trigger.sample)),
        answer=answer,
        problem=problem,
        took=round((time.perf_counter() - began) * 1000),
        look=_look,
    )


EXPLAIN = Page(path="/rules/explain", right=Right.RULES, show=_show_explain, act=_explain, section="rules")


def _event(text: str) -> dict[str, Any]:
    """Return the fields of an event that is written like the sample of a trigger. Raises Problem."""
    try:
        given = msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.MsgspecError as fault:
        raise faulty([Fault("$", f"is not an object of JSON: {fault}")]) from fault
    fields = {name: given.pop(name) for name in _FIELDS if name in given}
    return {**fields, "variables": given}


def _look(decision: Decision) -> str:
    """Return the state that a decision looks like."""
    return "failed" if decision.reason.startswith(_FAILED) else _STATES.get(decision.decision, "none")

"""The endpoints of rules and of the catalogue of triggers."""

from typing import Any

import msgspec

from dispatcher.base.errors import Fault, RulesRefused
from dispatcher.features.rules import models, store
from dispatcher.features.rules.rules import OFFSET_WORDS, default_recipients, offset_seconds
from dispatcher.http.cursors import read_name
from dispatcher.http.endpoints import Call, Done, Endpoint, endpoint
from dispatcher.http.listing import by_name, page
from dispatcher.http.problems import CONFLICT, NOT_FOUND, Problem, faulty, not_found
from dispatcher.http.roles import Right

NOUN = "rules"
_RIGHT = Right.RULES
_PATH = "/rules/{name}"
_TRIGGER = "/triggers/{name}"
_PARTS = ("trigger", "channel", "audience")
_CONTENT = {"enabled": True, "steps": []}
_RULE = {"trigger": "lead_welcome", "channel": "email", "audience": "lead"} | _CONTENT


@endpoint("GET", "/rules", _RIGHT, query=models.RuleQuery, answered=models.RULES)
async def list_rules(call: Call) -> Done:
    """List rules by name."""
    asked: models.RuleQuery = call.query
    start = read_name(NOUN, asked.cursor) or ""
    rows = await store.listed(call.database, call.workspace, start, asked.limit + 1, asked.trigger)
    return Done(models.Rules(*page(rows, asked.limit, models.Rule, by_name(NOUN))))


@endpoint("GET", _PATH, _RIGHT, answered=models.RULE, problems=(NOT_FOUND,))
async def get_rule(call: Call) -> Done:
    """Show a rule. Its name is trigger/channel/audience."""
    return Done(await _find(call))


async def _find(call: Call) -> models.Rule:
    name = call.named("rule")
    found = await store.show(call.database, call.workspace, name)
    if found is None:
        raise not_found(f"rule {name}")
    return found


@endpoint(
    "PUT",
    _PATH,
    _RIGHT,
    given=models.RuleContent,
    example=_CONTENT,
    answered=models.RULE,
    status=201,
    problems=(NOT_FOUND,),
)
async def put_rule(call: Call) -> Done:
    """Save a rule. Its name is trigger/channel/audience.

    Each template has to be published, of the rule's channel, and may read only what the trigger promises.
    """
    parts = call.named("rule").split("/")
    if len(parts) != len(_PARTS):
        raise faulty([Fault("path.name", "expected trigger/channel/audience, such as quote_sent/email/lead")])
    rule = dict(zip(_PARTS, parts, strict=True)) | {"enabled": call.given.enabled, "steps": call.given.steps}
    (saved,) = await _saved(call, [rule], check=False, at="$")
    return Done(await _find(call), 201 if saved.answer == "created" else 200)


@endpoint(
    "POST", "/rules", _RIGHT, given=models.SaveRules, example={"rules": [_RULE], "check": True}, answered=models.SAVED
)
async def save_rules(call: Call) -> Done:
    """Save several rules, all or none, as from a folder under version control. With `check` nothing is saved."""
    given: models.SaveRules = call.given
    rules = [msgspec.structs.asdict(one) for one in given.rules]
    saved = await _saved(call, rules, check=given.check, at="$.rules[{}]")
    others = sorted(set(await store.names(call.database, call.workspace)) - {one.name for one in saved})
    return Done(models.SavedRules(saved, others))


async def _saved(call: Call, rules: list[dict[str, Any]], *, check: bool, at: str) -> list[models.SavedRule]:
    faults: list[Fault] = []
    saved: list[models.SavedRule] = []
    written = [_written(rule, at.format(number), faults) for number, rule in enumerate(rules)]
    try:
        # What is wrong elsewhere is said together with the offsets.
        saved = await store.put(call.database, call.workspace, written, call.actor, check=check or bool(faults))
    except RulesRefused as refused:
        faults += [Fault(_below(one.path, at), one.message) for one in refused.faults]
    if faults:
        raise faulty(faults)
    return saved


def _below(path: str, at: str) -> str:
    """Return the path of a fault, below where the rules stand in the request."""
    return path.replace("$.rules[0]", "$", 1) if at == "$" else path


def _written(rule: dict[str, Any], at: str, faults: list[Fault]) -> dict[str, Any]:
    steps = []
    for number, one in enumerate(rule["steps"]):
        seconds = offset_seconds(one.offset)
        if seconds is None:
            faults.append(Fault(f"{at}.steps[{number}].offset", OFFSET_WORDS))
        recipients = default_recipients(rule["audience"]) if one.recipients is None else one.recipients
        step = {
            "template": one.template,
            "offset_seconds": seconds or 0,
            "recipients": recipients,
            "enabled": one.enabled,
        }
        steps.append(step if one.order is None else step | {"order": one.order})
    return rule | {"steps": steps}


def _switch(verb: str, method: str, path: str, summary: str) -> Endpoint:
    async def handle(call: Call) -> Done:
        name = call.named("rule")
        answer = await store.switch(call.database, call.workspace, name, verb, call.actor)
        if answer == "unknown":
            raise not_found(f"rule {name}")
        return Done(models.SwitchedRule(name, answer))

    handle.__name__, handle.__doc__ = f"{verb}_rule", summary
    return endpoint(method, path, _RIGHT, answered=models.SWITCHED, problems=(NOT_FOUND,))(handle)  # type: ignore[arg-type]  # POST or DELETE


enable_rule = _switch("enable", "POST", f"{_PATH}/enable", "Enable a rule.")
disable_rule = _switch(
    "disable", "POST", f"{_PATH}/disable", "Disable a rule: its channel is suppressed, without a fallback."
)
delete_rule = _switch("delete", "DELETE", _PATH, "Delete a rule: the fallback takes its place.")


@endpoint("GET", "/triggers", _RIGHT, answered=models.TRIGGERS)
async def list_triggers(call: Call) -> Done:
    """List the catalogue of triggers by name."""
    return Done(models.EventTriggers(await store.triggers(call.database, call.workspace)))


@endpoint("GET", _TRIGGER, _RIGHT, answered=models.TRIGGER, problems=(NOT_FOUND,))
async def get_trigger(call: Call) -> Done:
    """Show a trigger: what it promises, a sample, and what happens without a rule."""
    return Done(await _trigger(call))


async def _trigger(call: Call) -> models.EventTrigger:
    name = call.named("trigger")
    found = await store.triggers(call.database, call.workspace, name)
    if not found:
        raise not_found(f"trigger {name}")
    return found[0]


@endpoint(
    "PUT",
    _TRIGGER,
    _RIGHT,
    given=models.NewEventTrigger,
    example={
        "variables": ["invoice.number"],
        "pairs": [{"channel": "email", "audience": "lead", "fallback": "caller"}],
    },
    answered=models.TRIGGER,
    status=201,
    problems=(NOT_FOUND,),
)
async def put_trigger(call: Call) -> Done:
    """Save a trigger of the workspace. One that comes with the program is replaced until it is deleted again."""
    given: models.NewEventTrigger = call.given
    said = {
        "description": given.description,
        "variables": given.variables,
        "sample": given.sample,
        "pairs": {f"{one.channel}/{one.audience}": one.fallback for one in given.pairs},
    }
    try:
        answer = await store.put_trigger(call.database, call.workspace, call.named("trigger"), said, call.actor)
    except RulesRefused as refused:
        raise faulty(refused.faults) from refused
    return Done(await _trigger(call), 201 if answer == "created" else 200)


@endpoint("DELETE", _TRIGGER, _RIGHT, answered=models.SWITCHED, problems=(NOT_FOUND, CONFLICT))
async def delete_trigger(call: Call) -> Done:
    """Delete a trigger of the workspace. Refused while rules use it."""
    name = call.named("trigger")
    answer = await store.delete_trigger(call.database, call.workspace, name, call.actor)
    if answer == "unknown":
        raise not_found(f"trigger {name} of this workspace")
    if answer == "used":
        raise Problem(CONFLICT, f"trigger {name} has rules: delete them first", answer=answer)
    return Done(models.SwitchedRule(name, answer))


ENDPOINTS = (
    list_rules,
    get_rule,
    put_rule,
    save_rules,
    enable_rule,
    disable_rule,
    delete_rule,
    list_triggers,
    get_trigger,
    put_trigger,
    delete_trigger,
)

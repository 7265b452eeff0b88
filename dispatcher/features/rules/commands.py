"""The `rules` commands: save, list, show, switch, delete and explain rules, and keep them in files."""

from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from dispatcher.base.errors import RulesRefused
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.folders import Compared, paths_of, show_differences, show_others, show_saved
from dispatcher.cli.options import second
from dispatcher.cli.terminal.output import cell, show_facts, show_list, tell
from dispatcher.features.rules import endpoints, event_endpoints
from dispatcher.features.rules.files import SUFFIXES, RuleFile, in_files, read_all
from dispatcher.features.rules.models import (
    RULES_MAX,
    EventTrigger,
    Explained,
    ExplainedMessage,
    Rule,
    RuleStep,
    SavedRules,
    SwitchedRule,
)
from dispatcher.features.rules.notify_command import EventAt, Input, Person, Var, event_of, show_decisions
from dispatcher.http.problems import FAULTY, Problem

app = group(help="Say who is told what about an event, by which channel.")

Name = Annotated[str, typer.Argument(metavar="TRIGGER/CHANNEL/AUDIENCE")]
_FILES = ", ".join(f"*{suffix}" for suffix in SUFFIXES)


@command(app, "put", acts=True)
def put(
    caller: Caller, files: Annotated[list[Path], typer.Argument(metavar="FILE...", help="Rules, YAML or JSON.")]
) -> None:
    """Save rules from files, one in each. Nothing is saved where any of them has a fault."""
    read = read_all((path, str(path)) for path in files)
    for one in _save(caller, read, check=False).rules:
        words = {"created": "is saved", "changed": "is changed", "same": "says this already"}[one.answer]
        tell(caller, one, f"rule {one.name} {words}")


@command(app, "sync", acts=True)
def sync(
    caller: Caller,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help=f"Its files {_FILES}, one a rule.")],
    *,
    check: Annotated[bool, typer.Option("--check", help="Only show what differs; then the exit code is 1.")] = False,
) -> None:
    """Save every rule of a folder, or nothing where any of them has a fault.

    What is stored and not in the folder is named and left alone.
    """
    files = read_all(paths_of(folder, SUFFIXES, RULES_MAX))
    answer = _save(caller, files, check=check)
    compared = [
        Compared(one.name, file.path, one.answer != "same", waits=False)
        for file, one in zip(files, answer.rules, strict=True)
    ]
    show_others(caller, answer.others)
    if check:
        stored = {one.name: one.answer != "created" for one in answer.rules}
        show_differences(caller, compared, lambda one: _difference(one, stored=stored[one.name]))
        return
    saved: list[tuple[Compared, int, dict[str, object]]] = [
        (one, done.version or 0, {}) for one, done in zip(compared, answer.rules, strict=True)
    ]
    show_saved(caller, "rule", "enabled", saved)


def _difference(one: Compared, *, stored: bool) -> tuple[dict[str, object], str]:
    words = "says something else" if stored else "is not stored"
    return {"stored": stored, "differs": one.differs}, f"{one.name}: {words} ({one.path})"


def _save(caller: Caller, files: list[RuleFile], *, check: bool) -> SavedRules:
    body = {"rules": [one.content for one in files], "check": check}
    try:
        answer: SavedRules = caller.ask(endpoints.save_rules, body=body)
    except Problem as problem:
        if problem.kind is not FAULTY:
            raise
        raise RulesRefused(in_files(files, problem.faults)) from problem
    return answer


@command(app, "list", limit=100)
def list_(caller: Caller) -> None:
    """List rules by name."""
    columns = ("name", "enabled", "steps", "version", "by", "at")
    show_list(caller, caller.listed(endpoints.list_rules), columns, _cells, "There are no rules.")


def _cells(row: Rule) -> tuple[object, ...]:
    return row.name, cell(row.enabled), len(row.steps), row.version, row.updated_by, second(row.updated_at)


@command(app, "show")
def show(caller: Caller, name: Name) -> None:
    """Show a rule and its steps."""
    with caller.hinted(endpoints.list_rules, name):
        found: Rule = caller.ask(endpoints.get_rule, name)
    show_facts(caller, "rule", name, found, "steps")
    if caller.output.as_json:
        return
    caller.output.text()
    show_list(caller, found.steps, ("order", "template", "offset", "enabled", "recipients"), _step, "It has no steps.")


def _step(one: RuleStep) -> tuple[object, ...]:
    recipients = msgspec.json.encode(one.recipients).decode()
    return one.order, one.template, one.offset, cell(one.enabled), recipients


@command(app, "enable", acts=True)
def enable(caller: Caller, name: Name) -> None:
    """Enable a rule."""
    done: SwitchedRule = caller.ask(endpoints.enable_rule, name)
    tell(caller, done, f"rule {name} {'was enabled before' if done.answer == 'same' else 'is enabled'}")


@command(app, "disable", acts=True)
def disable(caller: Caller, name: Name) -> None:
    """Disable a rule: its channel is suppressed, and no fallback runs."""
    done: SwitchedRule = caller.ask(endpoints.disable_rule, name)
    tell(caller, done, f"rule {name} {'was disabled before' if done.answer == 'same' else 'is disabled'}")


@command(app, "delete", acts=True)
def delete(caller: Caller, name: Name) -> None:
    """Delete a rule: the fallback of its trigger takes its place."""
    tell(caller, caller.ask(endpoints.delete_rule, name), f"rule {name} is deleted")


@command(app, "triggers")
def triggers(caller: Caller) -> None:
    """List the catalogue of triggers."""
    columns = ("trigger", "own", "variables", "without a rule", "about")
    show_list(caller, caller.ask(endpoints.list_triggers).triggers, columns, _trigger, "There are no triggers.")


def _trigger(one: EventTrigger) -> tuple[object, ...]:
    pairs = ", ".join(f"{pair.channel}/{pair.audience}: {pair.fallback}" for pair in one.pairs)
    return one.name, cell(one.own), ", ".join(one.variables), pairs, one.description


@command(app, "explain")
def explain(
    caller: Caller,
    trigger: Annotated[str, typer.Argument(metavar="TRIGGER")],
    *,
    data: Input = None,
    var: Var = None,
    lead: Person = None,
    partner: Person = None,
    agent: Person = None,
    event_at: EventAt = None,
) -> None:
    """Show what an event would do, and write nothing: rules, recipients, and each message with its time.

    What is left out is taken from the sample of the trigger.
    """
    people = {"lead": lead, "partner": partner, "agent": agent}
    body = event_of(trigger, data, var, people, event_at)
    found: Explained = caller.ask(event_endpoints.explain, body=body)
    if caller.output.as_json:
        caller.output.record(found)
        return
    show_decisions(caller, found.decisions)
    for one in found.decisions:
        for step in one.steps:
            caller.output.text(f"{one.channel}/{one.audience} step {step.step}: {_recipients(step.found, step.to)}")
    for message in found.messages:
        _show(caller, message)


def _recipients(found: list[dict[str, Any]] | None, to: list[dict[str, Any]] | None) -> str:
    before = ", ".join(f"{one['path']} {one['address']}" for one in found or []) or "nobody"
    after = ", ".join(str(one["to"]) for one in to or []) or "nobody"
    return f"found {before}; sent to {after}"


def _show(caller: Caller, one: ExplainedMessage) -> None:
    caller.output.text()
    what = one.template or "the built-in message"
    length = f", {one.sms.words}" if one.sms else ""
    caller.output.text(f"{one.channel} to {one.recipient} at {second(one.at)}: {what}{length}")
    for part, text in one.parts.items():
        caller.output.text(f"{part}: {text}")
    if one.fault:
        caller.output.text(f"cannot be rendered: {one.fault}")

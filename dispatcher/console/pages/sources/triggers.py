"""Triggers of workflows: starting a run by a form, and planning one, which does nothing of it."""

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec import Struct

from dispatcher.console.page import Answer, Form, Visit, form
from dispatcher.console.pages.sources import trigger_form
from dispatcher.console.pages.sources.run_graph import graph
from dispatcher.console.rendering import plain
from dispatcher.features.runs.dry_run.endpoints import plan_workflow
from dispatcher.features.runs.endpoints import get_run, list_runs, trigger_workflow
from dispatcher.features.runs.models import Triggered
from dispatcher.features.runs.steps import AHEAD, DONE, FAILED, SKIPPED, Row
from dispatcher.features.workflows.endpoints import get_workflow
from dispatcher.features.workflows.models import Step, WholeWorkflow
from dispatcher.http.problems import NOT_FOUND, Problem
from dispatcher.http.roles import Right
from dispatcher.plans.simulation.planned import PlannedRun

# Messages of one step, and characters of a part and of all: a page has 150 KB at most.
MESSAGES_SHOWN = 3
PART_SHOWN, PARTS_SHOWN = 3_000, 40_000


class Begun(Struct, frozen=True):
    """A run that a form has started, and the sentence about it."""

    run_id: int
    message: str


@form("/workflows/{name}/trigger", trigger_workflow)
async def trigger(visit: Visit) -> Form:
    """Start a run."""
    workflow, sample = await _workflow(visit)
    asked = trigger_form.fields(workflow, sample, is_filled="run" in visit.query)

    async def act(visit: Visit, body: dict[str, Any]) -> Begun:
        try:
            found: Triggered = await visit.ask(trigger_workflow, body=trigger_form.body(body))
        except Problem as problem:
            raise trigger_form.at_fields(problem, asked) from problem
        words = "has begun" if not found.duplicate else "has the key already: nothing was started"
        return Begun(found.execution_id, f"Run {found.execution_id} {words}.")

    return Form(
        title=f"Trigger {workflow.name}?",
        text=f"One run of version {workflow.latest}, of {workflow.total_steps} steps. What it sends, it sends at once.",
        fields=asked,
        button="Start the run",
        reason=False,
        act=act,
        back=lambda begun: f"/runs/{begun.run_id}",
        cancel=f"/workflows/{workflow.name}",
    )


@form("/workflows/{name}/plan", plan_workflow)
async def plan(visit: Visit) -> Form:
    """Show what a trigger would do."""
    workflow, sample = await _workflow(visit)
    asked = trigger_form.fields(workflow, sample, is_filled="run" in visit.query)

    async def act(visit: Visit, body: dict[str, Any]) -> Answer:
        try:
            found: PlannedRun = await visit.ask(plan_workflow, body=trigger_form.body(body))
        except Problem as problem:
            raise trigger_form.at_fields(problem, asked) from problem
        return visit.show(
            "sources/plan.html",
            one=found,
            title=sentence(found),
            drawn=graph(workflow.steps, visit.query.get("at", ""), _states(workflow.steps, found)),
            whats={step.node: step.what for step in workflow.steps},
            kept={name: text for name, text in visit.form.items() if name != "token"},
            most=MESSAGES_SHOWN,
            part_most=min(PART_SHOWN, PARTS_SHOWN // max(_parts(found), 1)),
        )

    return Form(
        title=f"Plan a run of {workflow.name}",
        text="Nothing is written or sent. You see the steps, their times, and each message as it would be sent.",
        fields=asked,
        button="Plan it",
        reason=False,
        act=act,
        back=f"/workflows/{workflow.name}",
    )


async def _workflow(visit: Visit) -> tuple[WholeWorkflow, Mapping[str, Any]]:
    """Return the workflow, and the input of the run that is named, else of its newest run."""
    found: WholeWorkflow = await visit.ask(get_workflow)
    if not visit.may(Right.LOGS):
        return found, {}
    number = visit.query.get("run")
    if not number:
        newest = (await visit.ask(list_runs, query={"workflow": found.name, "limit": 1})).runs
        if not newest:
            return found, {}
        number = str(newest[0].execution_id)
    try:
        return found, plain((await visit.ask(get_run, number)).input)
    except Problem as problem:
        if problem.kind is not NOT_FOUND:
            raise
        return found, {}


def _parts(found: PlannedRun) -> int:
    return sum(len(message.parts) for step in found.steps for message in step.messages[:MESSAGES_SHOWN])


def sentence(found: PlannedRun) -> str:
    """Return in one sentence what a trigger would come to."""
    if found.duplicate_of is not None:
        return f"Nothing would be started: run {found.duplicate_of} has the key"
    messages = sum(len(step.messages) for step in found.steps)
    if found.fails_at is not None:
        return f"It would fail at {found.fails_at}"
    return f"It would come to its end, with {messages} message{'' if messages == 1 else 's'}"


def _states(steps: Sequence[Step], found: PlannedRun) -> dict[str, tuple[str, Row]]:
    planned = {step.node: step for step in found.steps}
    states: dict[str, tuple[str, Row]] = {}
    for one in steps:
        step = planned.get(one.node)
        css, state, note = "none", AHEAD, ""
        if step is not None and step.skipped:
            css, state = "skipped", SKIPPED
        elif step is not None and step.fails is not None:
            css, state, note = "failed", FAILED, step.fails
        elif step is not None:
            css, state = "sent", DONE
        states[one.node] = css, Row(one.step, one.node, one.what, state, note=note)
    return states

"""Workflows: the list, one with its graph and versions, what two versions differ in, and what can be done to them."""

import re
from collections.abc import Sequence
from difflib import unified_diff

from dispatcher.console.page import Answer, Visit, page
from dispatcher.console.pages.sources.run_graph import graph
from dispatcher.console.rendering import pretty
from dispatcher.console.switching import switch
from dispatcher.features.runs.endpoints import list_runs
from dispatcher.features.workflows.endpoints import (
    activate_workflow,
    deactivate_workflow,
    delete_workflow,
    get_workflow,
    list_workflows,
)
from dispatcher.features.workflows.models import WholeWorkflow
from dispatcher.http.roles import Right

ROWS = 50
RUNS_SHOWN = 5
# A page has 150 KB at most.
DEFINITION_SHOWN = 16_000
DIFF_LINES_SHOWN = 500
_CONTEXT_LINES = 4
_PLACE = re.compile(r"^@@ .* \+(\d+).*")


@page("/workflows", Right.WORKFLOWS)
async def workflows(visit: Visit) -> Answer:
    """List workflows by name."""
    found = await visit.ask(list_workflows, query={"limit": ROWS, **visit.query})
    return visit.show("sources/workflows.html", found=found)


@page("/workflows/{name}", Right.WORKFLOWS)
async def workflow(visit: Visit) -> Answer:
    """Show a version of a workflow, the newest without a number."""
    found: WholeWorkflow = await visit.ask(get_workflow, query={"version": visit.query.get("version")})
    newest = []
    if visit.may(Right.LOGS):
        asked = {"workflow": found.name, "limit": RUNS_SHOWN}
        newest = (await visit.ask(list_runs, query=asked)).runs
    drawn = graph(found.steps, visit.query.get("at", ""))
    names = {one["id"] for one in drawn.nodes}
    definition = pretty(found.definition)
    return visit.show(
        "sources/workflow.html",
        one=found,
        drawn=drawn,
        steps=[one for one in found.steps if one.node in names],
        runs=newest,
        definition=definition[:DEFINITION_SHOWN],
        is_cut=len(definition) > DEFINITION_SHOWN,
    )


@page("/workflows/{name}/changes", Right.WORKFLOWS)
async def changes(visit: Visit) -> Answer:
    """Show what two versions differ in: the newest and the one before, where the query names none."""
    newer: WholeWorkflow = await visit.ask(get_workflow, query={"version": visit.query.get("to")})
    before = visit.query.get("from") or str(max(newer.version - 1, 1))
    older: WholeWorkflow = await visit.ask(get_workflow, query={"version": before})
    lines = difference(older, newer)
    return visit.show(
        "sources/workflow_changes.html",
        older=older,
        newer=newer,
        lines=lines[:DIFF_LINES_SHOWN],
        left_out=max(len(lines) - DIFF_LINES_SHOWN, 0),
        added=sum(css == "added" for css, _ in lines),
        removed=sum(css == "removed" for css, _ in lines),
    )


def difference(older: WholeWorkflow, newer: WholeWorkflow) -> Sequence[tuple[str, str]]:
    """Return the lines in which two definitions differ, each with its class, and some lines around them."""
    before, after = (pretty(one.definition).splitlines() for one in (older, newer))
    lines = list(unified_diff(before, after, lineterm="", n=_CONTEXT_LINES))[2:]
    classes = {"+": "added", "-": "removed", "@": "place"}
    return [(classes.get(line[:1], ""), _PLACE.sub(r"from line \1 on", line)) for line in lines]


ACTIVATE = switch(
    "/workflows/{name}/activate",
    activate_workflow,
    title="Activate {name}?",
    text="One workflow. It takes triggers from now on, with its newest version.",
    button="Activate it",
    done="{name} takes triggers.",
)
DEACTIVATE = switch(
    "/workflows/{name}/deactivate",
    deactivate_workflow,
    title="Deactivate {name}?",
    text="One workflow. Triggers of it are refused from now on; runs that have begun go on.",
    button="Deactivate it",
    done="{name} takes no triggers.",
)
DELETE = switch(
    "/workflows/{name}/delete",
    delete_workflow,
    title="Delete {name}?",
    text="One workflow with all its versions. Its runs stay listed. One that has unfinished runs is not deleted.",
    button="Delete it",
    done="{name} is deleted.",
    confirm="It cannot be undone.",
    gone=True,
)

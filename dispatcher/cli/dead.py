"""The `dead` commands: runs and deliveries that have failed for good, to be looked at, replayed or discarded."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

from dispatcher.cli import deliveries, runs
from dispatcher.cli.commands import Body, command, group
from dispatcher.cli.deliveries import ID_MAX, LIMIT_MAX
from dispatcher.cli.failures import FAILED
from dispatcher.cli.given import moment
from dispatcher.cli.letters import NAMED_AS, Act, act_on_all, act_on_listed, act_on_these, letter
from dispatcher.cli.operating import Actor, Reason, Yes, require_filter, require_reason, second, who
from dispatcher.cli.session import Session
from dispatcher.doors.doors import Doors
from dispatcher.store.dead import KINDS, Filter, Kind, Letter

TIME = "RFC 3339, or so long ago, such as 2h30m."

app = group(help="List and show what has failed for good; replay or discard it.")

Letters = Annotated[list[str] | None, typer.Argument(metavar="[LETTER...]", help=NAMED_AS)]
Everything = Annotated[bool, typer.Option("--all", help="All that the filters leave, in place of LETTERs.")]


def _filter(  # noqa: PLR0913 - each is an option of the command line
    *,
    kind: Annotated[str | None, typer.Option("--kind", help=f"Of one kind: {' or '.join(KINDS)}.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Runs of one workflow.")] = None,
    channel: Annotated[str | None, typer.Option(help="Deliveries of one channel.")] = None,
    template: Annotated[str | None, typer.Option(help="Deliveries with one stored template.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help=f"Failed since then: {TIME}")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help=f"Failed before then: {TIME}")] = None,
    error: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Whose error has this in it, in capitals or not.")
    ] = None,
    tenant: Annotated[str | None, typer.Option(help="Of one tenant.")] = None,
    workspace: Annotated[str | None, typer.Option(help="Of one workspace.")] = None,
) -> Filter:
    """What the options of a filter mean."""
    texts = {"--workflow": workflow, "--channel": channel, "--template": template, "--error": error}
    for option, text in (texts | {"--tenant": tenant, "--workspace": workspace}).items():
        require_filter(option, text)
    kinds: set[Kind] = {one for one in KINDS if kind in (None, one)}
    if not kinds:
        raise typer.BadParameter(f"expected {' or '.join(KINDS)}", param_hint="--kind")
    if workflow is not None:
        kinds &= {"run"}
    if channel is not None or template is not None:
        kinds &= {"delivery"}
    if not kinds:
        words = "runs have a workflow, deliveries have a channel and a template: nothing has both"
        raise typer.BadParameter(words, param_hint="--kind, --workflow, --channel, --template")
    return Filter(
        kinds=tuple(one for one in KINDS if one in kinds),
        name=template if workflow is None else workflow,
        channel=channel,
        tenant_id=tenant,
        workspace_id=workspace,
        since=None if since is None else moment("--since", since),
        until=None if until is None else moment("--until", until),
        error=error,
    )


_OPTIONS = inspect.signature(_filter, eval_str=True).parameters


def filtered(body: Body) -> Body:
    """A command that is given a filter, as `meant`: it has the options of one."""

    def run(session: Session, **given: Any) -> None:  # noqa: ANN401 - whatever the command takes
        body(session, _filter(**{name: given.pop(name) for name in _OPTIONS}), **given)

    own = inspect.signature(body, eval_str=True).parameters
    taken = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*own.values(), *_OPTIONS.values())]
    run.__doc__ = body.__doc__
    run.__signature__ = inspect.Signature([one for one in taken if one.name != "meant"])  # type: ignore[attr-defined]  # what `command` reads
    return run


@command(app, "list")
@filtered
def list_(
    session: Session,
    meant: Filter,
    *,
    limit: Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="How many.")] = 20,
    before: Annotated[str | None, typer.Option(metavar="LETTER", help="Only what is listed below this one.")] = None,
) -> None:
    """List dead letters: the newest runs, then the newest deliveries."""
    at = None if before is None else letter(before, "--before")
    with session.doors() as doors:
        found = _listed(session, doors, meant, at, limit)
    for row in found:
        row["letter"] = f"{row['kind']}:{row['id']}"
    if session.voice.as_json:
        for row in found:
            session.voice.record(row)
        return
    columns = ("letter", "workflow or template", "failed", "replays", "at", "to", "error")
    session.voice.table(columns, map(_cells, found))
    if len(found) == limit:
        session.voice.say(f"further ones: --before {found[-1]['letter']}")


def _listed(session: Session, doors: Doors, meant: Filter, at: Letter | None, limit: int) -> list[dict[str, Any]]:
    """As many as asked for, of one kind after the other."""
    found: list[dict[str, Any]] = []
    for kind in meant.kinds:
        if at is not None and KINDS.index(kind) < KINDS.index(at.kind):
            continue
        below = at.id if at is not None and at.kind == kind else ID_MAX
        left = limit - len(found)
        if left:
            found += session.run(lambda k=kind, b=below, n=left: doors.dead.listed(meant, k, b, n))  # type: ignore[misc]  # bound now
    return found


def _cells(row: Mapping[str, Any]) -> tuple[object, ...]:
    at = row["node"] or row["channel"]
    return row["letter"], row["name"], second(row["failed_at"]), row["retries"], at, row["recipient"], row["error"]


@command(app, "show")
def show(session: Session, named: Annotated[str, typer.Argument(metavar="LETTER", help=NAMED_AS)]) -> None:
    """Show a dead letter: a run with its log and deliveries, or a delivery with its attempts."""
    one = letter(named)
    with session.doors() as doors:
        is_dead = session.run(lambda: doors.dead.is_dead(one))
    if not is_dead:
        session.voice.fail("NotDead", f"{one.kind} {one.id} is no dead letter")
        raise typer.Exit(FAILED)
    if one.kind == "run":
        runs.show(session, one.id)
    else:
        deliveries.show(session, one.id)


@command(app, "replay")
@filtered
def replay(
    session: Session,
    meant: Filter,
    reason: Reason,
    *,
    named: Letters = None,
    actor: Actor = None,
    everything: Everything = False,
    yes: Yes = False,
) -> None:
    """Let runs go on from the node that failed, and send deliveries again. What was sent is not sent again.

    By their names, or with --all everything that the filters leave, which says first how much that is.
    """
    _act(session, Act("replay", reason, who(session, actor)), named or [], everything, meant, yes)


@command(app, "discard")
@filtered
def discard(
    session: Session,
    meant: Filter,
    reason: Reason,
    *,
    named: Letters = None,
    actor: Actor = None,
    everything: Everything = False,
    yes: Yes = False,
) -> None:
    """Take them out of the dead letters: they stay failed, and nobody is asked to look at them any more.

    By their names, or with --all everything that the filters leave, which says first how much that is.
    """
    _act(session, Act("discard", reason, who(session, actor)), named or [], everything, meant, yes)


def _act(session: Session, act: Act, named: Sequence[str], everything: bool, meant: Filter, yes: bool) -> None:
    require_reason(act.reason)
    letters = [letter(one) for one in dict.fromkeys(named)]
    if bool(letters) == everything:
        raise typer.BadParameter("name dead letters, or all with --all", param_hint="LETTER")
    if letters and meant != Filter():
        raise typer.BadParameter("filters go with --all", param_hint="LETTER")
    if everything and session.address is None:
        with session.database() as database:
            done = act_on_all(session, database, meant, act, yes)
    else:
        with session.doors() as doors:
            if everything:
                done = act_on_listed(session, doors.dead, meant, act, yes)
            else:
                done = act_on_these(session, doors.dead, letters, act)
    if not done:
        raise typer.Exit(FAILED)

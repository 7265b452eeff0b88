"""The `dead` commands: list, show, replay and discard runs, deliveries and jobs that have failed for good."""

import inspect
from collections.abc import Sequence
from itertools import islice
from typing import Annotated, Any, get_args

import msgspec
import typer
from msgspec import structs

from dispatcher.cli.arguments import moment
from dispatcher.cli.calls import bulk
from dispatcher.cli.calls.bulk import Matched, Outcome, Words
from dispatcher.cli.calls.caller import PAGE_MAX, Caller
from dispatcher.cli.commands import Body, command, group
from dispatcher.cli.failures import FAILED
from dispatcher.cli.options import Reason, Yes, require_filter, require_reason, second
from dispatcher.cli.terminal.output import show_facts, show_list
from dispatcher.features.dead_letters import endpoints
from dispatcher.features.dead_letters.models import KINDS, DeadLetter, DeadLetterFilter, Kind, Verb
from dispatcher.features.deliveries.commands import show_delivery
from dispatcher.features.deliveries.endpoints import get_delivery
from dispatcher.features.deliveries.rules import NOT_DEAD
from dispatcher.features.runs.commands import show_run
from dispatcher.http.cursors import ID_MAX

TIME = "RFC 3339, or an age such as 2h30m."
NAMED_AS = "run:ID, delivery:ID or job:ID, as `dead list` shows them"
_WORDS = Words("dead letter", "dead letters", "dead", "", "", "", "there is no dead letter", "as they were")
WORDS = {
    "replay": structs.replace(_WORDS, doing="replaying", done="replayed", done_as="replayed"),
    "discard": structs.replace(_WORDS, doing="discarding", done="discarded", done_as="discarded"),
}

app = group(help="List and show what has failed for good; replay or discard it.")


class Filter(DeadLetterFilter, frozen=True, kw_only=True):
    """A filter of dead letters, and the kinds that it applies to."""

    kinds: Sequence[Kind] = KINDS

    def query(self) -> dict[str, Any]:
        """Return the filter as the query of an endpoint of one kind."""
        return {name: value for name, value in structs.asdict(self).items() if name != "kinds"}


def _filter(
    *,
    kind: Annotated[str | None, typer.Option("--kind", help=f"Of one kind: {' or '.join(KINDS)}.")] = None,
    workflow: Annotated[str | None, typer.Option(help="Runs of one workflow.")] = None,
    campaign: Annotated[str | None, typer.Option(help="Jobs of one campaign.")] = None,
    channel: Annotated[str | None, typer.Option(help="Deliveries and jobs of one channel.")] = None,
    template: Annotated[str | None, typer.Option(help="Deliveries with one stored template.")] = None,
    since: Annotated[str | None, typer.Option(metavar="TIME", help=f"Failed since then: {TIME}")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help=f"Failed before then: {TIME}")] = None,
    error: Annotated[str | None, typer.Option(metavar="TEXT", help="With this text in the error, in any case.")] = None,
) -> Filter:
    """Return the filter that these options describe."""
    names = {"run": ("--workflow", workflow), "delivery": ("--template", template), "job": ("--campaign", campaign)}
    texts = {**dict(names.values()), "--channel": channel, "--error": error}
    for option, text in texts.items():
        require_filter(option, text)
    kinds: set[Kind] = {one for one in KINDS if kind in (None, one)}
    if not kinds:
        raise typer.BadParameter(f"expected {' or '.join(KINDS)}", param_hint="--kind")
    for named, (_, text) in names.items():
        kinds -= {one for one in KINDS if text is not None and one != named}
    if channel is not None:
        kinds -= {"run"}
    if not kinds:
        words = "runs have workflows, deliveries channels and templates, jobs channels and campaigns: nothing has both"
        raise typer.BadParameter(words, param_hint="--kind, --workflow, --channel, --template, --campaign")
    return Filter(
        kinds=tuple(one for one in KINDS if one in kinds),
        name=next((text for _, text in names.values() if text is not None), None),
        channel=channel,
        error=error,
        since=None if since is None else moment("--since", since),
        until=None if until is None else moment("--until", until),
    )


_OPTIONS = inspect.signature(_filter, eval_str=True).parameters


def filtered(body: Body) -> Body:
    """Give a command the options of a filter, as its parameter `meant`."""

    def run(caller: Caller, **given: Any) -> None:  # noqa: ANN401 - the parameters of the command
        body(caller, _filter(**{name: given.pop(name) for name in _OPTIONS}), **given)

    own = inspect.signature(body, eval_str=True).parameters
    taken = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*own.values(), *_OPTIONS.values())]
    run.__doc__ = body.__doc__
    run.__signature__ = inspect.Signature([one for one in taken if one.name != "meant"])  # type: ignore[attr-defined]  # what `command` reads
    return run


def _entry(text: str, option: str = "LETTER") -> tuple[Kind, int]:
    """Return kind and id of the dead letter that a text names."""
    kind, _, number = text.partition(":")
    if kind in get_args(Kind) and number.isascii() and number.isdigit() and 0 < (found := int(number[:20])) <= ID_MAX:
        return kind, found  # type: ignore[return-value]  # checked above
    raise typer.BadParameter(f"expected {NAMED_AS}", param_hint=option)


@command(app, "list", limit=20, after=False, spans=True)
@filtered
def list_(
    caller: Caller,
    meant: Filter,
    *,
    before: Annotated[str | None, typer.Option(metavar="LETTER", help="Only those listed below this one.")] = None,
) -> None:
    """List dead letters: the newest runs, then deliveries of no run, then jobs of campaigns."""
    first, below = (KINDS[0], ID_MAX) if before is None else _entry(before, "--before")
    found: list[dict[str, Any]] = []
    for kind in KINDS[KINDS.index(first) :]:
        if kind in meant.kinds:
            left = caller.given.limit - len(found)
            found += _newest(caller, kind, below if kind == first else ID_MAX, left, meant)
    columns = ("letter", "workflow, template or campaign", "failed", "replays", "at", "to", "error")
    show_list(caller, found, columns, _cells, "There are no dead letters.")
    if len(found) == caller.given.limit:
        caller.output.info(f"further ones: --before {found[-1]['letter']}")


def _newest(caller: Caller, kind: Kind, below: int, count: int, meant: Filter) -> list[dict[str, Any]]:
    """Return the newest dead letters of a kind below an id, each with its name in commands."""
    size = min(PAGE_MAX, count)
    rows = islice(caller.every(endpoints.LIST[kind], size=size, before=below, **meant.query()), count)
    return [structs.asdict(row) | {"letter": f"{row.kind}:{row.id}"} for row in rows]


def _cells(row: dict[str, Any]) -> tuple[object, ...]:
    at = row["node"] or row["channel"]
    return row["letter"], row["name"], second(row["failed_at"]), row["retries"], at, row["recipient"], row["error"]


@command(app, "show", spans=True)
def show(caller: Caller, named: Annotated[str, typer.Argument(metavar="LETTER", help=NAMED_AS)]) -> None:
    """Show a dead letter: a run with its log and deliveries, a delivery with its attempts, or a job."""
    kind, number = _entry(named)
    newest = _newest(caller, kind, min(number + 1, ID_MAX), 1, Filter())
    if [row["id"] for row in newest] != [number]:
        caller.output.error("NotDead", f"{kind} {number} is no dead letter")
        raise typer.Exit(FAILED)
    if kind == "run":
        show_run(caller, number)
    elif kind == "job":
        show_facts(caller, "letter", named, msgspec.convert(newest[0], DeadLetter), "kind", "node", "recipient")
    else:
        show_delivery(caller, caller.ask(get_delivery, number))


def _add(verb: Verb, text: str) -> None:
    """Add the command that does this to dead letters, with its help text."""

    def act(
        caller: Caller,
        meant: Filter,
        reason: Reason,
        *,
        named: Annotated[list[str] | None, typer.Argument(metavar="[LETTER...]", help=NAMED_AS)] = None,
        everything: Annotated[bool, typer.Option("--all", help="All that match, in place of LETTERs.")] = False,
        yes: Yes = False,
    ) -> None:
        _act(caller, verb, named or [], meant, reason, everything=everything, yes=yes)

    act.__doc__ = f"""{text}

    Dead letters are named, or with --all are all that match the filters, which are counted first.
    """
    command(app, verb, acts=True, spans=True)(filtered(act))


_add("replay", "Resume runs at the node that failed, and send deliveries again. What was sent is not sent again.")
_add("discard", "Remove dead letters from the list: they stay failed.")


def _act(
    caller: Caller, verb: Verb, named: Sequence[str], meant: Filter, reason: str, *, everything: bool, yes: bool
) -> None:
    require_reason(reason)
    entries = [_entry(one) for one in dict.fromkeys(named)]
    if bool(entries) == everything:
        raise typer.BadParameter("name dead letters, or all with --all", param_hint="LETTER")
    if entries and (meant != Filter() or caller.given.tenant is not None or caller.given.workspace is not None):
        raise typer.BadParameter("filters go with --all", param_hint="LETTER")
    if everything:
        matched = [_matched(caller, verb, kind, meant, reason) for kind in meant.kinds]
        bulk.act_on_all(caller, WORDS[verb], matched, yes=yes)
    else:
        bulk.act_on_named(caller, entries, lambda one: _act_on(caller, verb, *one, reason))


def _matched(caller: Caller, verb: Verb, kind: Kind, meant: Filter, reason: str) -> Matched:
    """Count the dead letters of a kind that match now; later ones are left alone."""
    count, until = bulk.count(caller, endpoints.LIST[kind], lambda row: row.failed_at, meant.query())
    body = meant.query() | {"reason": reason, "until": until}
    return Matched(count, endpoints.ACT_ON_ALL[verb, kind], body, {"kind": kind})


class DeadLetterOutcome(Outcome, frozen=True):
    """The outcome for a dead letter."""

    kind: Kind


def _act_on(caller: Caller, verb: Verb, kind: Kind, number: int, reason: str) -> DeadLetterOutcome:
    done = bulk.attempt(caller, endpoints.ACT[verb, kind], number, {"reason": reason})
    answer = NOT_DEAD if done.answer == "unknown" else done.answer
    return DeadLetterOutcome(number, done.done, answer, done.message, kind)

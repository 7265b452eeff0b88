"""Commands: functions of a session and of their arguments, with the options that all commands have."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from dispatcher.cli.app import ConfigOption, JsonOption, group
from dispatcher.cli.calls.caller import LIMIT_MAX, Caller, Options
from dispatcher.cli.everywhere import AllCells, in_all_cells
from dispatcher.cli.judge import judged
from dispatcher.cli.options import UNNAMED, Actor
from dispatcher.cli.session import Session
from dispatcher.http.models import VERSION_MAX

__all__ = ["command", "group"]

Tenant = Annotated[str | None, typer.Option(help=f"The tenant; {UNNAMED}.")]
InWorkspace = Annotated[str | None, typer.Option("--workspace", help=f"The workspace; {UNNAMED}.")]
OfTenant = Annotated[str | None, typer.Option("--tenant", help="Of one tenant.")]
OfWorkspace = Annotated[str | None, typer.Option("--workspace", help="Of one workspace.")]
Version = Annotated[int | None, typer.Option(min=1, max=VERSION_MAX, help="The version; the newest without it.")]
After = Annotated[str, typer.Option(help="Start after this name.")]
Limit = Annotated[int, typer.Option(min=1, max=LIMIT_MAX, help="The number of rows, at most.")]
Body = Callable[..., None]


def version_option(name: str, words: str) -> Any:  # noqa: ANN401 - what Typer makes of it
    """Return an option that takes the number of a version."""
    return typer.Option(name, min=1, max=VERSION_MAX, help=words)


def command(
    target: typer.Typer,
    name: str,
    *,
    acts: bool = False,
    limit: int | None = None,
    after: bool = True,
    spans: bool = False,
    cells: bool = False,
) -> Callable[[Body], Body]:
    """Add a command. Its first parameter is a Caller of endpoints, or a Session for a command without endpoints.

    `--config` and `--json` are added, and with a Caller `--tenant` and `--workspace`; `--actor` where it `acts`; and
    `--limit` (by default `limit`) for a list, with `--after` where it may start `after` a name. A local command that
    `spans` is about all workspaces where none is named. With `cells` it can be run in all cells.
    """

    def add(body: Body) -> Body:
        first, *own = inspect.signature(body, eval_str=True).parameters.values()
        of_caller = _added(acts=acts, limit=limit, after=after, spans=spans, cells=cells)
        added = of_caller if first.annotation is Caller else []

        def run(context: typer.Context, config: Path | None, as_json: bool, **given: Any) -> None:  # noqa: ANN401 - of the options' own types
            above = context.find_root().params
            session = Session(config or above["config"], as_json or above["as_json"])
            if first.annotation is not Caller:
                body(session, **given)
                return
            taken = {one.name: given.pop(one.name) for one in added}

            def run_in(session: Session) -> None:
                with judged(session), Caller(session, Options(acts=acts, spans=spans, **taken)) as caller:
                    body(caller, **given)

            if taken.get("all_cells"):
                in_all_cells(session, run_in)
            else:
                run_in(session)

        parameters = [*_common(), *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own), *added]
        run.__doc__ = body.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        target.command(name)(run)
        return body

    return add


def _common() -> list[inspect.Parameter]:
    return [
        inspect.Parameter("context", inspect.Parameter.KEYWORD_ONLY, annotation=typer.Context),
        _option("config", ConfigOption, None),
        _option("as_json", JsonOption, False),
    ]


def _added(*, acts: bool, limit: int | None, after: bool, spans: bool, cells: bool) -> list[inspect.Parameter]:
    """Return the options of a command that calls endpoints."""
    return [
        *([_option("after", After, "")] if limit is not None and after else []),
        *([_option("limit", Limit, limit)] if limit is not None else []),
        *([_option("actor", Actor, None)] if acts else []),
        _option("tenant", OfTenant if spans else Tenant, None),
        _option("workspace", OfWorkspace if spans else InWorkspace, None),
        *([_option("all_cells", AllCells, False)] if cells else []),
    ]


def _option(name: str, annotation: Any, default: object) -> inspect.Parameter:  # noqa: ANN401 - typer's own
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation, default=default)

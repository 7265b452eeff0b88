"""Commands: functions of a session and of what the command line gave, with the options that every one of them has."""

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from dispatcher.cli.session import Session

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", envvar="DISPATCHER_CONFIG", help="The TOML file; without one the defaults hold."),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="JSON: one object, or one a line, on standard output; errors on standard error.")
]
Body = Callable[..., None]


def group(**settings: Any) -> typer.Typer:  # noqa: ANN401 - typer's own options, passed on
    """A set of commands. What goes wrong is explained by `main`, not by typer."""
    return typer.Typer(
        no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, **settings
    )


def command(target: typer.Typer, name: str) -> Callable[[Body], Body]:
    """Add a command: its first parameter is the session, and `--config` and `--json` come by themselves."""

    def add(body: Body) -> Body:
        def run(context: typer.Context, config: Path | None, as_json: bool, **given: object) -> None:
            above = context.find_root().params
            body(Session(config or above["config"], as_json or above["as_json"]), **given)

        _, *own = inspect.signature(body, eval_str=True).parameters.values()
        parameters = [*_common(), *(one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own)]
        run.__doc__ = body.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what typer reads
        run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
        target.command(name)(run)
        return body

    return add


def _common() -> list[inspect.Parameter]:
    keyword = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter("context", keyword, annotation=typer.Context),
        inspect.Parameter("config", keyword, annotation=ConfigOption, default=None),
        inspect.Parameter("as_json", keyword, annotation=JsonOption, default=False),
    ]

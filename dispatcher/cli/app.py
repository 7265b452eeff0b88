"""Sets of commands, and the two options that every command has. It loads nothing that `--help` does not need."""

from pathlib import Path
from typing import Annotated, Any

import typer

ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", envvar="DISPATCHER_CONFIG", help="The TOML file; without one the defaults hold."),
]
JsonOption = Annotated[
    bool, typer.Option("--json", help="JSON: one object, or one a line, on standard output; errors on standard error.")
]


def group(**settings: Any) -> typer.Typer:  # noqa: ANN401 - typer's own options, passed on
    """A set of commands. What goes wrong is explained by `main`, not by typer."""
    return typer.Typer(
        context_settings={"help_option_names": ["-h", "--help"]},
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        **settings,
    )

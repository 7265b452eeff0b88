"""The root of the command line: it finds commands by their names, and turns errors into exit codes."""

import io
import os
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, NamedTuple, NoReturn

import typer

# The base of all usage errors has no other name.
from typer._click.exceptions import ClickException, NoArgsIsHelpError

from dispatcher.base.version import VERSION
from dispatcher.cli.app import ConfigOption, JsonOption, group
from dispatcher.cli.terminal.launcher import launcher
from dispatcher.cli.terminal.standard_streams import hold

if TYPE_CHECKING:
    from dispatcher.cli.terminal.console import Output

EPILOG = (
    "Exit codes: 0 done; 1 failed, or not all of it was done; 2 the command line or the configuration is unusable; "
    "3 what was to be saved, or some of what was to be sent, is refused; 130 interrupted."
)


class Entry(NamedTuple):
    """A command in the registry: its module, and the first sentence of its help."""

    module: str
    summary: str


def command_line(words: Sequence[str], commands: Mapping[str, Entry]) -> typer.Typer:
    """Return the parser of a command line: with the command that it begins with, else with all commands."""
    from dispatcher.cli.commands import command  # noqa: PLC0415 - what commands work with takes long to load

    app = _root_of_all()
    for name in words[:1] if words and words[0] in commands else commands:
        module = import_module(commands[name].module)
        if not hasattr(module, "app"):
            command(app, name)(getattr(module, name))
        elif own := [one for one in module.app.registered_commands if one.name == name]:
            app.registered_commands += own
        else:
            app.add_typer(module.app, name=name)
    return app


def overview(commands: Mapping[str, Entry]) -> typer.Typer:
    """Return the parser of a command line that names no command: it knows their names, for help and hints."""
    app = _root_of_all()
    for name, entry in commands.items():
        app.command(name, help=entry.summary)(lambda: None)
    return app


def _root_of_all() -> typer.Typer:
    app = group(help="A self-hosted notification engine on Postgres.", epilog=EPILOG)
    app.callback()(_root)
    return app


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"dispatcher {VERSION}")
        raise typer.Exit


def _root(
    config: ConfigOption = None,
    as_json: JsonOption = False,
    version: Annotated[bool, typer.Option("--version", is_eager=True, callback=_version, help="Say which.")] = False,
) -> None:
    """Options that may stand before the command; the commands find them in the root's context."""


def main(commands: Mapping[str, Entry]) -> NoReturn:
    """Run the command line, and exit with its code."""
    hold()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    words = sys.argv[1:]
    is_named = any(word in commands for word in words)
    try:
        app = command_line(words, commands) if is_named else overview(commands)
        code = app(prog_name=launcher(), standalone_mode=False)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        code = _failed(error)
    sys.exit(code if isinstance(code, int) else 0)


def _failed(error: BaseException) -> int:
    """Show why a command has failed, and return its exit code. A bug is raised again."""
    from dispatcher.cli.failures import FAILED, INTERRUPTED, UNUSABLE, explain  # noqa: PLC0415 - it imports every room's errors
    from dispatcher.cli.terminal.console import Output  # noqa: PLC0415 - it imports rich

    # Known before anything is parsed, since a usage error has no context yet.
    output = Output("--json" in sys.argv)
    if isinstance(error, ClickException):
        _show_usage_error(output, error)
        return UNUSABLE
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # The reader of our output has ended; Python would report it again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    failures = explain(error)
    if failures is None:
        raise error
    for failure in failures:
        output.error(failure.kind, failure.message, failure.faults)
    for note in getattr(error, "__notes__", ()):
        output.info(note)
    return max(failure.exit_code for failure in failures)


def _show_usage_error(output: "Output", wrong: ClickException) -> None:
    if isinstance(wrong, NoArgsIsHelpError):
        typer.echo(wrong.format_message(), err=True)
        return
    context = getattr(wrong, "ctx", None)
    hint = f"\n  see {context.command_path} --help" if context is not None and not output.as_json else ""
    message = wrong.format_message()
    output.note(f"error: {message}{hint}", {"error": "UsageError", "message": message})

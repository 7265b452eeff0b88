"""The root of the command line: every command by its name, and how any of them ends."""

import io
import os
import sys
from collections.abc import Sequence
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
    from dispatcher.cli.terminal.console import Voice

EPILOG = (
    "Exit codes: 0 done; 1 failed, or not all of it was done; 2 the command line or the configuration is unusable; "
    "3 what was to be saved, or some of what was to be sent, is refused; 130 interrupted."
)


class Place(NamedTuple):
    """Where a command is, and the first sentence of its help."""

    module: str
    summary: str


# A module is imported when its command is asked for. `--help` shows the summaries: all modules take ten times as long.
COMMANDS = {
    "serve": Place("dispatcher.process.serve", "Run the dispatcher until it is told to stop."),
    "migrate": Place("dispatcher.process.serve", "Bring the database's schema up to date."),
    "send": Place("dispatcher.features.deliveries.send_command", "Send one delivery, or one for each line of a file."),
    "trigger": Place("dispatcher.features.runs.trigger_command", "Start a run of a workflow."),
    "demo": Place("dispatcher.process.demo.command", "Send a few deliveries to look at."),
    "selftest": Place(
        "dispatcher.process.selftest",
        "Kill replicas and cut their connections while they send, and check that nothing is lost and nothing sent "
        "twice.",
    ),
    "pause": Place("dispatcher.features.pauses.commands", "Pause a channel, provider, tenant, template or workspace."),
    "resume": Place(
        "dispatcher.features.pauses.commands", "Resume a channel, provider, tenant, template or workspace."
    ),
    "pauses": Place("dispatcher.features.pauses.commands", "List pauses: where, since when, by whom and why."),
    "quarantine": Place(
        "dispatcher.process.quarantine",
        "Hold everything that is due and was created before a time, until somebody says what became of it.",
    ),
    "check": Place(
        "dispatcher.process.check",
        "Check every invariant on the whole database, and name what breaks it; exit with 1 when anything does.",
    ),
    "deliveries": Place(
        "dispatcher.features.deliveries.commands", "List and show deliveries; retry, cancel or move them."
    ),
    "held": Place("dispatcher.features.held.commands", "List, show and settle held deliveries."),
    "dead": Place(
        "dispatcher.features.dead_letters.commands", "List and show what has failed for good; replay or discard it."
    ),
    "objects": Place(
        "dispatcher.features.objects.commands", "Store files that deliveries carry as attachments or inline images."
    ),
    "templates": Place("dispatcher.features.templates.commands", "Save, look at and publish templates."),
    "workflows": Place(
        "dispatcher.features.workflows.commands", "Save workflows, look at them, and let them take triggers."
    ),
    "runs": Place(
        "dispatcher.features.runs.commands", "List, show and watch runs; pause, resume, cancel and retry them."
    ),
    "suppressions": Place(
        "dispatcher.features.suppressions.commands",
        "List, add, remove, import and check addresses that get nothing more.",
    ),
    "topics": Place(
        "dispatcher.features.suppressions.topic_commands",
        "List what addresses said about topics; subscribe and unsubscribe them.",
    ),
    "contacts": Place(
        "dispatcher.features.contacts.commands",
        "Write, look at, import, export and erase contacts: the people of a workspace.",
    ),
    "schedules": Place(
        "dispatcher.features.schedules.commands",
        "Trigger workflows by the clock: one run for each tick, whatever dies and however many replicas there are.",
    ),
    "keys": Place("dispatcher.features.keys.commands", "Make, list, rotate and revoke the keys of the HTTP API."),
    "webhooks": Place(
        "dispatcher.features.webhooks.commands",
        "Send events of deliveries and runs to endpoints, in signed messages.",
    ),
    "config": Place("dispatcher.process.config", "Check the configuration, or show it."),
}


def command_line(words: Sequence[str]) -> typer.Typer:
    """What reads a command line: with its one command where it begins with that, else with all of them."""
    from dispatcher.cli.commands import command  # noqa: PLC0415 - what commands work with takes long to load

    app = _root_of_all()
    for name in words[:1] if words and words[0] in COMMANDS else COMMANDS:
        module = import_module(COMMANDS[name].module)
        if not hasattr(module, "app"):
            command(app, name)(getattr(module, name))
        elif own := [one for one in module.app.registered_commands if one.name == name]:
            app.registered_commands += own
        else:
            app.add_typer(module.app, name=name)
    return app


def overview() -> typer.Typer:
    """What reads a command line that names no command: all of them by name, for help and hints."""
    app = _root_of_all()
    for name, place in COMMANDS.items():
        app.command(name, help=place.summary)(_nothing)
    return app


def _root_of_all() -> typer.Typer:
    app = group(help="A self-hosted notification engine on Postgres.", epilog=EPILOG)
    app.callback()(_root)
    return app


def _nothing() -> None:
    """Nobody has asked for it."""


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


def main() -> NoReturn:
    """Run what the command line says, and exit with its code."""
    hold()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    words = sys.argv[1:]
    is_named = any(word in COMMANDS for word in words)
    try:
        code = (command_line(words) if is_named else overview())(prog_name=launcher(), standalone_mode=False)
        sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        code = _failed(error)
    sys.exit(code if isinstance(code, int) else 0)


def _failed(error: BaseException) -> int:
    """Say why a command has not done what it was asked for; the exit code. A bug is raised again."""
    from dispatcher.cli.failures import FAILED, INTERRUPTED, UNUSABLE, explain  # noqa: PLC0415 - it knows every room's errors
    from dispatcher.cli.terminal.console import Voice  # noqa: PLC0415 - it loads what draws on terminals

    # Known before anything is parsed, since a usage error has no context yet.
    voice = Voice("--json" in sys.argv)
    if isinstance(error, ClickException):
        _say_how(voice, error)
        return UNUSABLE
    if isinstance(error, (KeyboardInterrupt, typer.Abort)):
        return INTERRUPTED
    if isinstance(error, BrokenPipeError):
        # Who read our output has gone; Python would complain about it once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    failures = explain(error)
    if failures is None:
        raise error
    for failure in failures:
        voice.fail(failure.kind, failure.message, failure.faults)
    return max(failure.exit_code for failure in failures)


def _say_how(voice: "Voice", wrong: ClickException) -> None:
    if isinstance(wrong, NoArgsIsHelpError):
        typer.echo(wrong.format_message(), err=True)
        return
    context = getattr(wrong, "ctx", None)
    hint = f"\n  see {context.command_path} --help" if context is not None and not voice.as_json else ""
    message = wrong.format_message()
    voice.note(f"error: {message}{hint}", {"error": "UsageError", "message": message})

"""The root of the command line: every command by its name, and how any of them ends."""

import io
import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, NoReturn

import typer

# The base of all usage errors has no other name.
from typer._click.exceptions import ClickException, NoArgsIsHelpError

from dispatcher.cli.commands import ConfigOption, JsonOption, command, group
from dispatcher.cli.failures import FAILED, INTERRUPTED, UNUSABLE, explain
from dispatcher.cli.program import launcher
from dispatcher.cli.streams import hold
from dispatcher.cli.voice import Voice
from dispatcher.version import VERSION

EPILOG = (
    "Exit codes: 0 done; 1 failed, or not all of it was done; 2 the command line or the configuration is unusable; "
    "3 what was to be saved, or some of what was to be sent, is refused; 130 interrupted."
)

# Each command and the module that has it. It is imported when it is asked for: all of them take twice as long as one.
COMMANDS = {
    "serve": "dispatcher.cli.serve",
    "migrate": "dispatcher.cli.serve",
    "send": "dispatcher.cli.send",
    "trigger": "dispatcher.cli.trigger",
    "demo": "dispatcher.cli.demo",
    "selftest": "dispatcher.cli.selftest",
    "pause": "dispatcher.cli.pauses",
    "resume": "dispatcher.cli.pauses",
    "pauses": "dispatcher.cli.pauses",
    "quarantine": "dispatcher.cli.quarantine",
    "check": "dispatcher.cli.check",
}
GROUPS = {
    "deliveries": "dispatcher.cli.deliveries",
    "held": "dispatcher.cli.held",
    "dead": "dispatcher.cli.dead",
    "objects": "dispatcher.features.objects.commands",
    "templates": "dispatcher.cli.templates",
    "workflows": "dispatcher.cli.workflows",
    "runs": "dispatcher.cli.runs",
    "suppressions": "dispatcher.cli.suppressions",
    "topics": "dispatcher.cli.topics",
    "contacts": "dispatcher.cli.contacts",
    "schedules": "dispatcher.features.schedules.commands",
    "keys": "dispatcher.features.keys.commands",
    "webhooks": "dispatcher.features.webhooks.commands",
    "config": "dispatcher.cli.configuration",
}


def command_line(words: Sequence[str]) -> typer.Typer:
    """What reads a command line: with its one command where it begins with that, else with all, for help and hints."""
    app = group(help="A self-hosted notification engine on Postgres.", epilog=EPILOG)
    app.callback()(_root)
    places = COMMANDS | GROUPS
    for name in words[:1] if words and words[0] in places else places:
        module = import_module(places[name])
        if name in GROUPS:
            app.add_typer(module.app, name=name)
        else:
            command(app, name)(getattr(module, name))
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


def main() -> NoReturn:
    """Run what the command line says, and exit with its code."""
    hold()
    # Known before anything is parsed, since a usage error has no context yet.
    voice = Voice("--json" in sys.argv)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        code = command_line(sys.argv[1:])(prog_name=launcher(), standalone_mode=False)
        sys.stdout.flush()
    except ClickException as wrong:
        code = _misused(voice, wrong)
    except (KeyboardInterrupt, typer.Abort):
        code = INTERRUPTED
    except BrokenPipeError:
        # Who read our output has gone; Python would complain about it once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = FAILED
    except Exception as error:
        failures = explain(error)
        if failures is None:
            raise
        for failure in failures:
            voice.fail(failure.kind, failure.message, failure.faults)
        code = max(failure.exit_code for failure in failures)
    sys.exit(code if isinstance(code, int) else 0)


def _misused(voice: Voice, wrong: ClickException) -> int:
    if isinstance(wrong, NoArgsIsHelpError):
        typer.echo(wrong.format_message(), err=True)
        return UNUSABLE
    context = getattr(wrong, "ctx", None)
    hint = f"\n  see {context.command_path} --help" if context is not None and not voice.as_json else ""
    message = wrong.format_message()
    voice.note(f"error: {message}{hint}", {"error": "UsageError", "message": message})
    return UNUSABLE

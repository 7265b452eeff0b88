"""The `config` commands: whether the configuration is sound, and what is in effect."""

import json
from collections.abc import Iterator, Mapping

from channels.registry import PROVIDERS
from dispatcher.cli.commands import command, group
from dispatcher.cli.session import Session
from dispatcher.cli.terminal.output import tell
from dispatcher.config import show as shown
from dispatcher.config.fields import dotted
from dispatcher.plans.plan import BUILT_IN

app = group(help="Check the configuration, or show it.")


@command(app, "check")
def check(session: Session) -> None:
    """Check file and environment; name every fault, and exit with 2 when there is one."""
    config = session.config
    replaced = sorted(BUILT_IN.keys() & config.functions.keys())
    where = session.config_path or "the defaults"
    instead = "is called in place of the built-in function {0}, by workflows that are saved from now on."
    tell(
        session,
        {"sound": True, "channels": sorted(config.channels), "replaced_functions": replaced},
        f"The configuration is sound: {where}, with what the environment overrides.",
        *(f"[functions.{name}] {instead.format(name)}" for name in replaced),
    )


@command(app, "show")
def show(session: Session) -> None:
    """Show everything in effect, as TOML; secrets are hidden."""
    values = shown(session.config, PROVIDERS)
    if session.output.as_json:
        session.output.record(values)
        return
    for keys, value in _flat(values):
        # JSON's texts, numbers and booleans are TOML's.
        session.output.text(f"{dotted(keys)} = {json.dumps(value, ensure_ascii=False)}")


def _flat(table: Mapping[str, object], at: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, (*at, key))
        else:
            yield (*at, key), value

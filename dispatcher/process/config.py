"""The `config` commands: whether the configuration is sound, and what is in effect."""

import json
from collections.abc import Iterator, Mapping

from channels.registry import PROVIDERS
from dispatcher.cli.commands import command, group
from dispatcher.cli.session import Session
from dispatcher.config import show as shown
from dispatcher.config.fields import dotted
from dispatcher.plans.plan import BUILT_IN

app = group(help="Check the configuration, or show it.")


@command(app, "check")
def check(session: Session) -> None:
    """Check file and environment; name every fault, and exit with 2 when there is one."""
    config = session.config
    replaced = sorted(BUILT_IN.keys() & config.functions.keys())
    if session.output.as_json:
        session.output.record({"sound": True, "channels": sorted(config.channels), "replaced_functions": replaced})
        return
    where = session.config_path or "the defaults"
    session.output.text(f"The configuration is sound: {where}, with what the environment overrides.")
    for name in replaced:
        instead = f"[functions.{name}] is called in place of the built-in function {name}"
        session.output.text(f"{instead}, by workflows that are saved from now on.")


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

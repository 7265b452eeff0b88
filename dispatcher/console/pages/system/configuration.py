"""The configuration in effect in the process that answers, for operators; secrets are hidden."""

from collections.abc import Iterator, Mapping

from channels.registry import PROVIDERS
from dispatcher.config import show
from dispatcher.console.page import Answer, Visit, page
from dispatcher.http.problems import FORBIDDEN, Problem
from dispatcher.http.roles import Right


@page("/configuration", Right.KEYS)
async def configuration(visit: Visit) -> Answer:
    """Show everything in effect."""
    config = visit.config()
    if f"{visit.workspace.tenant_id}/{visit.workspace.workspace_id}" != config.api.operators:
        words = f"the configuration is of all tenants: only keys of {config.api.operators} (`api.operators`) see it"
        raise Problem(FORBIDDEN, words)
    seen = show(config, PROVIDERS)
    tables = {name: list(_flat(value)) for name, value in seen.items() if isinstance(value, dict) and value}
    alone = [(name, value) for name, value in seen.items() if not isinstance(value, dict)]
    return visit.show("system/configuration.html", tables=tables, alone=alone)


def _flat(table: Mapping[str, object], at: str = "") -> Iterator[tuple[str, object]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{at}{key}.")
        else:
            yield f"{at}{key}", value

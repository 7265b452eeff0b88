"""The endpoints about cells: the directory, and for operators what all cells say."""

from dispatcher.base.directory import Directory
from dispatcher.base.errors import ConfigError
from dispatcher.features.cells import models, rules, store
from dispatcher.http import operators
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.problems import NOT_FOUND, Problem
from dispatcher.http.roles import Right

_ONLY = "look at other cells"


@endpoint("GET", "/cells/directory", Right.LOGS, answered=models.DIRECTORY, problems=(NOT_FOUND,), gathers=True)
async def get_cell_directory(call: Call) -> Done:
    """Show the directory of cells: the configured one, with what this cell's own table knows better."""
    found = _directory(call)
    own = rules.Seen(number=call.served.config().cell.number, url="", placements=await store.placements(call.database))
    known = rules.newest(found, [own])
    tenants = known.tenants
    if not operators.is_operator(call):
        tenants = {name: number for name, number in tenants.items() if name == call.workspace.tenant_id}
    cells = [models.CellAddress(number=one.number, url=one.url) for one in known.cells]
    return Done(models.CellDirectory(version=known.version, default=known.default, cells=cells, tenants=tenants))


@endpoint("GET", "/cells", Right.KEYS, answered=models.CELLS, problems=(NOT_FOUND,), gathers=True)
async def list_cells(call: Call) -> Done:
    """List all cells of the installation, each as it answers within two seconds, and what is wrong among them.

    For keys of the operators' workspace (`api.operators`) only.
    """
    operators.require(call, _ONLY)
    found = _directory(call)
    seen = await store.look(found)
    return Done(
        models.Cells(
            directory_version=found.version, cells=[_state(one) for one in seen], faults=rules.faults(found, seen)
        )
    )


def _directory(call: Call) -> Directory:
    try:
        return store.directory(call.served.config())
    except ConfigError as fault:
        raise Problem(NOT_FOUND, "; ".join(map(str, fault.faults))) from fault


def _state(one: rules.Seen) -> models.CellState:
    asked = one.own_number is not None
    return models.CellState(
        number=one.number,
        url=one.url,
        faults=[*filter(None, (one.database_fault, one.api_fault)), *one.reasons],
        version=one.version,
        tenants=sum(row.state == "here" for row in one.placements) if asked else None,
        waiting=one.waiting,
        held=one.held,
    )

"""The endpoints of the settings of a workspace."""

from dispatcher.base.errors import Fault
from dispatcher.base.values.time_zones import zone_fault
from dispatcher.features.workspaces import models, store
from dispatcher.features.workspaces.rules import REGION_WORDS, REGIONS
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.problems import faulty
from dispatcher.http.roles import Right

_PATH = "/settings"
_EXAMPLE = {"phone_region": "DE", "time_zone": "Europe/Berlin"}


@endpoint("GET", _PATH, Right.RULES, answered=models.SETTINGS)
async def get_settings(call: Call) -> Done:
    """Show the settings of the workspace."""
    return Done(await store.show(call.database, call.workspace))


@endpoint("PUT", _PATH, Right.RULES, given=models.NewSettings, example=_EXAMPLE, answered=models.SETTINGS)
async def put_settings(call: Call) -> Done:
    """Save the settings of the workspace.

    Phone numbers without + or 00 are read as those of `phone_region`; without one they are refused.
    """
    given: models.NewSettings = call.given
    faults = []
    if given.phone_region is not None and given.phone_region not in REGIONS:
        faults.append(Fault("$.phone_region", REGION_WORDS))
    if (words := zone_fault(given.time_zone)) is not None:
        faults.append(Fault("$.time_zone", words))
    if faults:
        raise faulty(faults)
    await store.put(call.database, call.workspace, given.phone_region, given.time_zone, call.actor)
    return Done(await store.show(call.database, call.workspace))


ENDPOINTS = (get_settings, put_settings)

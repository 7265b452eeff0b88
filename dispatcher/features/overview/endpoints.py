"""The overview over HTTP."""

from datetime import UTC, datetime

import msgspec

from dispatcher.features.overview import models, store
from dispatcher.features.pauses import store as pauses
from dispatcher.features.pauses.models import Pause
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.operators import is_operator
from dispatcher.http.roles import Right

PAUSES_MAX = 50


@endpoint("GET", "/overview", Right.LOGS, answered=models.OVERVIEW)
async def get_overview(call: Call) -> Done:
    """Show what goes on.

    Throughput, what is held and dead, and what is paused, in the workspace of the key. Keys of the operators'
    workspace also see the whole system: backlog, replicas, and what the configuration lacks.
    """
    looks = call.served.system is not None and is_operator(call)
    return Done(
        models.Overview(
            at=datetime.now(UTC),
            throughput=await store.throughput(call.database, call.part.tenant_id or "", call.part.workspace_id or ""),
            held=await store.held(call.database, call.part),
            dead=await store.dead(call.database, call.part),
            pauses=[
                msgspec.convert(row, Pause)
                for row in await pauses.listed(call.database, call.workspace if call.shown else None, 0, PAUSES_MAX)
            ],
            system=await call.served.system() if looks and call.served.system is not None else None,
        )
    )

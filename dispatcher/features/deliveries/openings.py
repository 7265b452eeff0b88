"""The openings of deliveries: what will happen to those that were just written, or were there under their keys."""

from collections.abc import Mapping, Sequence

from msgspec import json

from dispatcher.base.errors import Fault
from dispatcher.config.settings import Config
from dispatcher.db.database import Database
from dispatcher.engine.rules.staging import REASON, Message, Staging
from dispatcher.engine.rules.suppression import Candidate
from dispatcher.engine.store import suppression
from dispatcher.features.deliveries import models, store
from dispatcher.features.deliveries.store import Kind, KindState, New, Opening, Written


async def openings(
    database: Database, config: Config, batch: Sequence[New], answers: Sequence[Written | Fault]
) -> list[models.Written | Fault]:
    """Return what is answered about a batch that was written: each delivery with its opening, or its fault."""
    written = {n: one for n, one in enumerate(answers) if not isinstance(one, Fault)}
    fresh = {n: batch[n] for n, one in written.items() if not one.duplicate}
    known = await store.standing(database, [one.id for one in written.values() if one.duplicate])
    kinds = await store.kinds(database, {new.kind for new in fresh.values()})
    bars = await _bars(database, config, fresh, kinds)
    told: list[models.Written | Fault] = []
    for n, (new, one) in enumerate(zip(batch, answers, strict=True)):
        if isinstance(one, Fault):
            told.append(one)
            continue
        opening = _opening(new, kinds[new.kind], bars.get(n)) if n in fresh else known[one.id]
        told.append(
            models.Written(
                id=one.id,
                idempotency_key=new.idempotency_key,
                duplicate=one.duplicate,
                life=opening.life,
                run_at=opening.run_at,
                waits=opening.waits,
                bar=opening.bar,
            )
        )
    return told


def _opening(new: New, kind: KindState, bar: str | None) -> Opening:
    due = new.scheduled_for is None or new.scheduled_for <= kind.now
    waits = kind.waits if due and bar is None else None
    return Opening("pending", new.scheduled_for or kind.now, waits, bar)


async def _bars(
    database: Database, config: Config, fresh: Mapping[int, New], kinds: Mapping[Kind, KindState]
) -> dict[int, str]:
    """Return why some will not be sent, by their places."""
    barred: dict[int, str] = {}
    if any(kind.watched for kind in kinds.values()):
        asked = ((n, new.tenant_id, new.channel, new.lane, new.recipient, new.topic) for n, new in fresh.items())
        barred |= await suppression.reasons(database, [Candidate(*one) for one in asked])
    for n, new in fresh.items():
        if new.expires_at is not None:
            now = kinds[new.kind].now
            if new.expires_at <= max(now, new.scheduled_for or now):
                barred[n] = "expired"
    if config.staging.enabled:
        staging = Staging.of(config.staging.allow, config.staging.redirect)
        barred |= {n: REASON for n, new in fresh.items() if not _goes_out(staging, config, new)}
    return barred


def _goes_out(staging: Staging, config: Config, new: New) -> bool:
    """Whether a delivery goes out in staging, by one of its channel's providers."""
    message = Message(new.recipient, {}, json.decode(new.options))
    kinds = [one.provider for one in config.channels[new.channel].each_provider.values()]
    return any(staging.message(new.channel, kind, message) is not None for kind in kinds)

"""What of a batch may be marked: each delivery once, claimed under the terms of today, and stopped by no pause."""

from collections.abc import Sequence
from datetime import UTC, datetime

from dispatcher.engine.rules.life import Back, Outcome, Parked
from dispatcher.engine.rules.pauses import Pauses
from dispatcher.engine.streams import Rendered

# A window that ought to be open by our clock and is not yet by the database's.
WINDOW_WAIT_SECONDS_MIN = 1.0


def newest(batch: Sequence[Rendered]) -> tuple[Sequence[Rendered], Sequence[Rendered]]:
    """Return each delivery once, by its last claim, and what is left of earlier ones.

    One that was moved while we had it may have come back by another claim: the mark of the later claim would pass for
    the earlier one's too, and the delivery would be called twice.
    """
    if len({one.item.id for one in batch}) == len(batch):
        return batch, ()
    found: dict[int, Rendered] = {}
    for one in sorted(batch, key=lambda each: each.item.token):
        found[one.item.id] = one
    kept = list(found.values())
    return kept, [one for one in batch if one is not found[one.item.id]]


def claimed_behind(batch: Sequence[Rendered], token: int) -> tuple[Sequence[Rendered], Sequence[Rendered]]:
    """Return those that were claimed behind a token, and the others.

    Recovery goes by the terms of the claim: a delivery claimed before a reload changed them would be sent again by a
    key that its call never carried.
    """
    earlier = [one for one in batch if one.item.token <= token]
    return ([one for one in batch if one.item.token > token], earlier) if earlier else (batch, ())


def unstopped(
    batch: Sequence[Rendered], pauses: Pauses
) -> tuple[Sequence[Rendered], Sequence[tuple[Rendered, Outcome]]]:
    """Return those that no pause of a tenant, workspace, template or run stops, and what becomes of the others."""
    if not pauses.parks_some():
        return batch, ()
    running: list[Rendered] = []
    stopped: list[tuple[Rendered, Outcome]] = []
    for one in batch:
        if (pause := pauses.parks(one.item)) is not None:
            stopped.append((one, Parked(pause)))
        elif (opens_at := pauses.opens_at(one.item)) is not None:
            wait = (opens_at - datetime.now(UTC)).total_seconds()
            stopped.append((one, Back(max(wait, WINDOW_WAIT_SECONDS_MIN), "outside the campaign's window")))
        else:
            running.append(one)
    return running, stopped

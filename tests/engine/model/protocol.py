"""The protocol as a pure model: what each verb does to deliveries, claims, instances and pauses, without a database."""

from collections.abc import Iterable, Mapping, Sequence
from math import inf

from msgspec import Struct, field

from dispatcher.engine.rules.life import (
    Again,
    Back,
    Claimed,
    Failed,
    Held,
    Lane,
    Outcome,
    Parked,
    Resend,
    Result,
    Skipped,
    Succeeded,
    success_status,
)

POISON_FROM = 6
QUARANTINED = 0
GONE_OUT = ("sent", "called", "posted")


def suspected(recoveries: int) -> int:
    """Claimed like any other, with few that are suspected too, or alone."""
    return (0, 0, 1)[recoveries] if recoveries < 3 else 2


class Attempt(Struct, frozen=True):
    """An attempt that is over and did not end its delivery."""

    outcome: str
    token: int
    resent_by: str | None = None


class Delivery(Struct):
    """One delivery where it stands. `again` counts how often an operator had it sent once more."""

    id: int
    channel: str
    lane: Lane
    tenant: str
    created_at: int
    run_at: int
    expires_at: int | None
    max_attempts: int
    status: str = "queued"
    ready: bool = True
    marked: bool = False
    held: bool = False
    token: int | None = None
    attempt: int = 0
    base: int = 0
    recoveries: int = 0
    key_used_at: int | None = None
    resend_until: float | None = None
    # That of its last mark.
    provider: str | None = None
    settle_after: int | None = None
    error: str = ""
    again: int = 0
    attempts: list[Attempt] = field(default_factory=list)
    evidence: dict[int, str] = field(default_factory=dict)

    @property
    def queued(self) -> bool:
        """Whether it has no end yet."""
        return self.status == "queued"

    @property
    def life(self) -> str:
        """Where it stands, by name."""
        if not self.queued:
            return self.status
        stages = ((self.held, "held"), (self.marked, "sending"), (self.token is not None, "claimed"))
        return next((name for holds, name in stages if holds), "pending" if self.ready else "parked")

    def expired(self, now: int) -> bool:
        """Whether it must not be sent any more."""
        return self.expires_at is not None and self.expires_at <= now

    def keep(self, outcome: str, token: int, resent_by: str | None = None) -> None:
        """The current attempt is over. One that was kept before is not kept twice."""
        if self.attempt > len(self.attempts):
            self.attempts.append(Attempt(outcome, token, resent_by))

    def free(self, run_at: int) -> None:
        """Ready for another claim."""
        self.ready, self.marked, self.held, self.token = True, False, False, None
        self.run_at = max(self.run_at, run_at)

    def resend(self, resend: Resend) -> None:
        """An unknown attempt may be sent again, for as long as its provider knows the key since its first use."""
        assert self.key_used_at is not None, f"{self.id} was never marked"
        until = inf if resend.key_seconds is None else self.key_used_at + resend.key_seconds
        self.resend_until = until if self.resend_until is None else min(self.resend_until, until)

    def hold(self, token: int | None, error: str) -> None:
        """The outcome of a call is unknown: of this attempt, or, under a token that no claim has, of an earlier one."""
        self.ready, self.held, self.token = False, True, token
        self.error = error

    def end(self, status: str, error: str = "") -> None:
        """The end, unless an operator reopens it; or no end, where it is of no avail to an unknown attempt."""
        if status in ("failed", "skipped") and self.resend_until is not None:
            self.hold(self.token if self.marked else QUARANTINED, error)
        else:
            self.status, self.ready, self.held = status, False, False
            self.error = error


def resend_at(provider: str | None, resend: Resend) -> Resend:
    """The terms of a provider, by those of its channel."""
    keys = resend.provider_keys or {}
    if provider is not None and provider in keys:
        return Resend("key", keys[provider])
    return Resend(resend.by, resend.key_seconds)


class Claim(Struct, frozen=True):
    """The columns of a claim that recovery reads."""

    epoch: int
    ids: Sequence[int]
    resend: Resend
    settle_seconds: int


class Protocol:
    """All that Postgres knows, and the verbs."""

    def __init__(self) -> None:
        self.now = 0
        self.deliveries: dict[int, Delivery] = {}
        self.claims: dict[int, Claim] = {}
        self.instances: set[int] = set()
        # The open pauses by tenant; the parked deliveries, each with the pause that it waits for.
        self.open_pauses: dict[str, int] = {}
        self.parked: dict[int, int] = {}

    def claimable(self, channel: str, lane: Lane | None, step: int) -> list[int]:
        """Deliveries that a claim may take: of one lane, or, where it is suspected of killing its owners, of any."""
        return [
            one.id
            for one in self.deliveries.values()
            if one.ready
            and one.channel == channel
            and lane in (one.lane, None)
            and one.run_at <= self.now
            and step == suspected(one.recoveries)
        ]

    def claim(self, token: int, claim: Claim) -> None:
        """These were taken."""
        if claim.ids:
            self.claims[token] = claim
        for one in self._all(claim.ids):
            one.ready, one.token = False, token

    def forget(self, epoch: int, token: int) -> int:
        """Free what a claim took without its owner's knowing."""
        freed = 0
        for one in self._owned(token) if token in self.claims and self.claims[token].epoch == epoch else ():
            if not one.marked:
                one.free(one.run_at)
                freed += 1
        return freed

    def mark(self, epoch: int, items: Iterable[Claimed], providers: Mapping[int, str]) -> list[int]:
        """The ids that are marked, each for its provider; what is left out and still its owner's ends here."""
        marked = []
        for item in items:
            one = self.deliveries[item.id]
            if one.token != item.token or one.marked or not one.queued:
                continue
            if one.expired(self.now):
                one.end("skipped", "expired")
            elif one.resend_until is not None and (one.resend_until <= self.now or one.provider != providers[one.id]):
                one.hold(QUARANTINED, "unknown: the key is forgotten, or another provider's")
            elif epoch in self.instances:
                one.marked, one.attempt, one.provider = True, one.attempt + 1, providers[one.id]
                one.key_used_at = self.now if one.key_used_at is None else one.key_used_at
                marked.append(one.id)
        return marked

    def flush(self, results: Iterable[Result], spent: Iterable[int]) -> list[Result]:
        """Write results under their token; answers those that were not their owner's any more."""
        fenced = [result for result in results if not self._written(*result)]
        for token in spent:
            self.claims.pop(token, None)
        return fenced

    def _written(self, item: Claimed, outcome: Outcome) -> bool:
        one = self.deliveries[item.id]
        if one.token != item.token:
            return False
        if not one.queued:
            # It stands as written: by this flush, whose answer was lost, or by evidence of the same call.
            return isinstance(outcome, Succeeded) and one.status == success_status(one.channel)
        if one.held:
            return False
        if isinstance(outcome, Succeeded):
            if one.marked:
                one.end(success_status(one.channel))
            return one.marked
        self._end_otherwise(one, item.token, outcome)
        return True

    def _end_otherwise(self, one: Delivery, token: int, outcome: Outcome) -> None:
        match outcome:
            case Failed(reason=reason, conclusive=conclusive):
                one.resend_until = None if conclusive else one.resend_until
                one.end("failed", reason)
            case Skipped(reason=reason):
                one.end("skipped", reason)
            case Held(reason=reason):
                one.hold(token, reason)
            case Again(delay_seconds=delay, resend=resend):
                one.keep("unknown" if resend else "retry", token, resend.by if resend else None)
                if resend:
                    one.resend(resend)
                one.free(self.now + int(delay))
            case Back(delay_seconds=delay):
                one.attempt -= one.marked
                one.free(self.now + int(delay))
            case Parked(pause_id=pause_id):
                one.free(self.now)
                one.ready = False
                self.parked[one.id] = pause_id
            case _:
                raise AssertionError(outcome)

    def late(self, item: Claimed, outcome: Outcome) -> str:
        """The effect of a result after its claim was lost."""
        one = self.deliveries[item.id]
        verdict = verdict_of(outcome)
        ours = one.held and one.token == item.token
        known = one.resend_until is None
        if verdict in ("retry", "not_called"):
            if not ours:
                return "dropped" if verdict == "not_called" else self._evidence(one, item.token, verdict)
            if verdict == "retry":
                one.keep("retry", item.token)
            elif one.attempt > len(one.attempts):
                one.attempt -= 1
            one.free(self.now)
            one.settle_after = None
            return "resolved"
        status = {"accepted": success_status(one.channel), "refused": "failed"}.get(verdict, "queued")
        if one.token == item.token and one.life in (status, "held" if verdict == "unknown" else ""):
            return "applied"
        became = self._evidence(one, item.token, verdict)
        ends = ours and known if verdict == "refused" else verdict == "accepted" and (one.held or not one.marked)
        if became == "applied" or not one.queued or not ends:
            return became
        one.end(status, "refused" if verdict == "refused" else "")
        one.token, one.settle_after = item.token, None
        return "resolved"

    def _evidence(self, one: Delivery, token: int, verdict: str) -> str:
        if Attempt(verdict, token) in [Attempt(kept.outcome, kept.token) for kept in one.attempts]:
            return "applied"
        one.evidence.setdefault(token, verdict)
        return "kept"

    def fence(self, epoch: int) -> bool:
        """Take an epoch away."""
        if epoch not in self.instances:
            return False
        self.instances.remove(epoch)
        return True

    def orphans(self) -> list[int]:
        """Claims that have something to recover and no live instance."""
        return sorted(
            token
            for token, claim in self.claims.items()
            if claim.epoch not in self.instances and any(not one.held for one in self._owned(token))
        )

    def recover(self, page: int) -> int:
        """Recover claims that have no live instance; says how many."""
        orphans = self.orphans()[:page]
        for token in orphans:
            for one in self._owned(token):
                if not one.held:
                    self._recover(one, token)
        return len(orphans)

    def _recover(self, one: Delivery, token: int) -> None:
        claim = self.claims[token]
        resend = resend_at(one.provider, claim.resend)
        if not one.marked:
            one.recoveries += 1
            if one.recoveries >= POISON_FROM:
                one.end("failed", "poison")
            else:
                one.free(one.run_at)
        elif resend.by is not None and one.attempt - one.base < one.max_attempts:
            one.keep("unknown", token, resend.by)
            one.resend(resend)
            one.free(one.run_at)
            one.settle_after = self.now + claim.settle_seconds
        else:
            one.hold(token, "unknown: the owner died")
            one.settle_after = self.now + claim.settle_seconds

    def cancel(self, delivery_id: int) -> str:
        """Until it is marked."""
        one = self.deliveries[delivery_id]
        if one.life not in ("pending", "claimed", "parked"):
            return one.life
        one.end("skipped", "cancelled")
        if one.held:
            return "stopped"
        one.token = None
        return "cancelled"

    def move(self, delivery_id: int, run_at: int) -> str:
        """Until it is marked."""
        one = self.deliveries[delivery_id]
        if one.life not in ("pending", "claimed", "parked"):
            return one.life
        one.free(run_at)
        one.run_at = run_at
        return "moved"

    def reopen(self, delivery_id: int) -> str:
        """Send a failed or skipped one again."""
        one = self.deliveries[delivery_id]
        if one.status not in ("failed", "skipped"):
            return one.status
        if one.marked:
            one.keep(one.status, one.token or QUARANTINED)
        one.status, one.base, one.recoveries, one.run_at = "queued", one.attempt, 0, self.now
        one.key_used_at = one.resend_until = None
        one.again += 1
        one.free(self.now)
        return "reopened"

    def settle(self, delivery_id: int, settle_as: str) -> str:
        """An operator's word on a held one."""
        one = self.deliveries[delivery_id]
        if not one.held:
            return "not held" if one.queued else one.status
        if one.settle_after is not None and one.settle_after > self.now:
            return "early"
        if settle_as == "requeue":
            one.keep("unknown", one.token or QUARANTINED, "operator")
            one.base = one.attempt if one.attempt - one.base >= one.max_attempts else one.base
            one.recoveries, one.key_used_at, one.resend_until = 0, None, None
            one.again += 1
            one.free(self.now)
        else:
            one.resend_until = None
            one.end("failed" if settle_as == "failed" else success_status(one.channel), settle_as)
        one.settle_after = None
        return "settled"

    def settle_by_evidence(self) -> None:
        """A late Accepted decides what is held."""
        for one in self.deliveries.values():
            if one.held and "accepted" in one.evidence.values():
                one.end(success_status(one.channel))
                one.settle_after = None

    def unpark(self) -> int:
        """Make ready what waited for a pause that is over."""
        over = [one for one, pause in self.parked.items() if pause not in self.open_pauses.values()]
        freed = 0
        for delivery_id in over:
            del self.parked[delivery_id]
            one = self.deliveries[delivery_id]
            if one.life == "parked":
                one.ready = True
                freed += 1
        return freed

    def expire(self) -> None:
        """Skip what waits, in the queue or for a pause to end, and has expired."""
        for one in self.deliveries.values():
            if one.life in ("pending", "parked") and one.expired(self.now):
                self.parked = {key: pause for key, pause in self.parked.items() if one.ready or key != one.id}
                one.end("skipped", "expired")

    def quarantine(self, before: int) -> int:
        """Hold what is due and was created before."""
        suspects = [
            one
            for one in self.deliveries.values()
            if one.queued and not one.held and one.run_at <= self.now and one.created_at < before
        ]
        for one in suspects:
            # A call may be under way at this very moment.
            settle_seconds = self.claims[one.token].settle_seconds if one.marked and one.token else 0
            one.hold(QUARANTINED, "quarantined")
            one.settle_after = max(one.settle_after or 0, self.now + settle_seconds)
        return len(suspects)

    def drop_spent(self) -> None:
        """Drop claims in which nothing is queued any more under their token."""
        for token in [token for token in self.claims if not self._owned(token)]:
            del self.claims[token]

    def _all(self, ids: Iterable[int]) -> list[Delivery]:
        return [self.deliveries[one] for one in ids]

    def _owned(self, token: int) -> list[Delivery]:
        return [one for one in self._all(self.claims[token].ids) if one.token == token and one.queued]


def verdict_of(outcome: Outcome) -> str:
    """The outcome of a late result."""
    match outcome:
        case Succeeded():
            return "accepted"
        case Failed():
            return "refused"
        case Again(resend=resend):
            return "retry" if resend is None else "unknown"
        case Held():
            return "unknown"
        case _:
            return "not_called"

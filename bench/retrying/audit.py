"""The audit of attempts: the requests that a provider noted and the rows of each delivery, against the schedule."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence, Set
from itertools import zip_longest

from msgspec import Struct, field

from bench.retrying.schedule import Schedule
from dispatcher.selftest.ledger_file import Request

SHOWN_MAX = 5
# Two processes read one clock; a float of seconds since 1970 is exact to less than a microsecond.
CLOCK_SECONDS = 0.001
NOT_SENT = "no connection"


class Try(Struct, frozen=True):
    """An attempt that did not succeed, as its row says: when that was written, when the next one is due, and why."""

    ended_at: float
    next_at: float
    unknown: bool
    reason: str


class Delivery(Struct, frozen=True):
    """One delivery as its rows say in the end. `keyed`: its provider knows keys, so unknown attempts are repeated."""

    key: str
    keyed: bool
    due: float
    # sent, failed, held, or what it should not be.
    state: str
    attempt: int
    reason: str
    tries: Mapping[int, Try]


class Findings(Struct):
    """What an audit found: broken promises by name, with some keys, and how late each attempt was."""

    counts: Counter[str] = field(default_factory=Counter)
    keys: dict[str, list[str]] = field(default_factory=dict)
    late_seconds: list[float] = field(default_factory=list)

    def note(self, what: str, key: str) -> None:
        """Note a broken promise."""
        self.counts[what] += 1
        shown = self.keys.setdefault(what, [])
        if len(shown) < SHOWN_MAX:
            shown.append(key)

    def add(self, other: "Findings") -> None:
        """Take along what another audit found."""
        for what, keys in other.keys.items():
            for key in keys:
                self.note(what, key)
            self.counts[what] += other.counts[what] - len(keys)
        self.late_seconds += other.late_seconds

    def __str__(self) -> str:
        return "; ".join(f"{what}: {count}, as {', '.join(self.keys[what])}" for what, count in self.counts.items())


class _History:
    """One delivery while its requests are gone through: when the next one is due, or how it has to have ended."""

    def __init__(self, delivery: Delivery, schedule: Schedule, dropped: Set[int], findings: Findings) -> None:
        self._delivery = delivery
        self._schedule = schedule
        self._dropped = dropped
        self._findings = findings
        self._attempt = 1
        self._earliest = self._due = delivery.due
        self._unknown = False
        self._end = ""

    def _note(self, what: str) -> None:
        self._findings.note(what, self._delivery.key)

    def request(self, asked: Request, behind: Request | None) -> None:
        """Compare one request with what was due, and go on to what follows from it; `behind` is the next one."""
        if self._end:
            self._note("an attempt after the last one")
            return
        self._skip_unseen(asked.attempt)
        if asked.attempt != self._attempt:
            self._note("an attempt out of turn")
            self._attempt = asked.attempt
        if asked.attempt > self._schedule.attempts_max:
            self._note("more attempts than allowed")
        if asked.at < self._earliest - CLOCK_SECONDS:
            self._note("an attempt too early")
        self._findings.late_seconds.append(max(0.0, asked.at - self._due))
        # A row tells of the last request of its attempt; those before it were throttled.
        is_last = behind is None or behind.attempt != asked.attempt
        self._answered(asked, is_last and self._was_lost(asked))

    def _answered(self, asked: Request, was_lost: bool) -> None:
        again = self._attempt < self._schedule.attempts_max
        match "drop" if was_lost else asked.fault:
            case "accept":
                self._end = "sent"
            case "refuse":
                self._end = "failed"
            case "throttle":
                self._earliest = self._due = asked.at + self._schedule.throttle_seconds
            case "retry" if again:
                self._next(asked.at)
            case "retry":
                self._end = "held" if self._unknown else "failed"
            case _ if again and self._delivery.keyed:
                self._unknown = True
                self._next(asked.at)
            case _:
                self._end = "held"

    def _was_lost(self, asked: Request) -> bool:
        """Whether the answer was lost: its connection was dropped behind it, and the row calls the attempt unknown."""
        stored, delivery = self._delivery.tries.get(asked.attempt), self._delivery
        is_last = delivery.attempt == asked.attempt and delivery.reason.startswith("unknown: ")
        return asked.connection in self._dropped and (is_last if stored is None else stored.unknown)

    def _next(self, answered_at: float) -> None:
        """The attempt is used up: the next is due after the wait that its row says, counted from the answer."""
        shortest, longest = self._schedule.wait(self._attempt)
        self._earliest = answered_at + shortest
        self._due = answered_at + longest
        stored = self._delivery.tries.get(self._attempt)
        if stored is None:
            self._note("an attempt without a row")
        else:
            wait = stored.next_at - stored.ended_at
            if not shortest - CLOCK_SECONDS <= wait <= longest + CLOCK_SECONDS:
                self._note("a wait that is not of the schedule")
            self._due = min(self._due, answered_at + wait)
        self._attempt += 1

    def _skip_unseen(self, attempt: int) -> None:
        """Go past attempts that the provider never read: their connection was lost with an earlier call's answer."""
        while self._attempt < attempt:
            stored = self._delivery.tries.get(self._attempt)
            if stored is None or not (stored.unknown or stored.reason == NOT_SENT):
                return
            if stored.unknown and not self._delivery.keyed:
                self._note("an unknown attempt was repeated without a key")
            self._unknown |= stored.unknown
            self._earliest = self._due = stored.next_at
            self._attempt += 1

    def ended(self) -> None:
        """Compare the end with what the requests make of it."""
        delivery = self._delivery
        if not self._end:
            # The provider has read no last attempt: it was lost on the way, or never made.
            self._skip_unseen(delivery.attempt)
            lost = delivery.attempt == self._attempt and delivery.state == "held"
            if not lost and NOT_SENT not in delivery.reason:
                self._note(f"lost: {delivery.state} without a last attempt")
        elif delivery.state != self._end:
            self._note(f"{delivery.state}, and should be {self._end}")
        elif delivery.attempt != self._attempt:
            self._note("another number of attempts than the provider saw")


def audit(
    deliveries: Iterable[Delivery], requests: Sequence[Request], accepted: Mapping[str, int], schedule: Schedule
) -> Findings:
    """Go through the deliveries and the requests of one provider. `accepted` says how often it has taken each key."""
    findings = Findings()
    by_key: dict[str, list[Request]] = {}
    for request in requests:
        by_key.setdefault(request.key, []).append(request)
    dropped = {request.connection for request in requests if request.fault == "drop"}
    for delivery in deliveries:
        history = _History(delivery, schedule, dropped, findings)
        of_key = by_key.pop(delivery.key, [])
        for request, behind in zip_longest(of_key, of_key[1:]):
            history.request(request, behind)
        history.ended()
        taken = accepted.get(delivery.key, 0)
        if taken > 1:
            findings.note("accepted more than once", delivery.key)
        if taken == 0 and delivery.state == "sent":
            findings.note("sent, and never accepted", delivery.key)
        if taken and delivery.state not in ("sent", "held"):
            findings.note("accepted, and not known to be", delivery.key)
    for key in by_key:
        findings.note("sent, and in no row", key)
    return findings

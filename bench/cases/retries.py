"""Every attempt of deliveries whose provider fails, throttles, refuses and loses answers, against the schedule."""

from bench.measure import BenchError, Measure, beside, median, percentile
from bench.retrying import peers
from bench.retrying.peer_jobs import DUE_PER_SECOND as PEER_DUE_PER_SECOND
from bench.retrying.peer_jobs import Attempts
from bench.retrying.schedule import DUE_PER_SECOND
from bench.retrying.trial import SCHEDULE, trial
from bench.server import Server
from dispatcher.config.settings import Claim

DELIVERIES = 50_000
# Each has a seed of its own.
ROUNDS = 3

# A peer is given the same time: a tenth of the jobs at a tenth of the rate.
PEER_SHARE = DUE_PER_SECOND // PEER_DUE_PER_SECOND
LATE_MILLISECONDS_MAX = Claim().poll_seconds * 1_000 + 250

METHOD = (
    "{deliveries} deliveries, {rate} due a second, in each of {rounds} seeded rounds, to two ledgers that lose 0.4 % "
    "of the answers, refuse 2 %, throttle 1 % and fail 28 %; one of them knows keys. Up to {attempts} attempts, waits "
    "of {base:g} s doubled up to {cap:g} s with {jitter:.0%} jitter. {attempted} attempts. "
)
VIOLATIONS = (
    "Attempts before their time, with a wait that is not of the schedule, out of turn, over the maximum or after the "
    "last one; deliveries lost, accepted twice, or ended otherwise than their provider said. One fails the case."
)
LATE = (
    "From when an attempt was due, counted from the answer before it, to its arrival: the worst round's. Less is better"
)
PEER = (
    "p99 beside that of {peer} in the first round: a tenth of these deliveries as jobs, a tenth due a second, no "
    "jitter, polling every second as we do. Less is better; no limit."
)
TWICE = (
    "Messages that {peer} sent twice in the first round, with a tenth of these deliveries: what a job whose answer was "
    "lost does when it is repeated. Less is better."
)


async def run(server: Server, deliveries: int, rounds: int) -> list[Measure]:
    """Run each seed, then each peer once."""
    late: list[list[float]] = []
    for seed in range(1, rounds + 1):
        findings = await trial(server, deliveries, seed)
        if findings.counts:
            raise BenchError(f"seed {seed}: {findings}")
        late.append(findings.late_seconds)
    method = METHOD.format(
        deliveries=deliveries,
        rate=DUE_PER_SECOND,
        rounds=rounds,
        attempts=SCHEDULE.attempts_max,
        base=SCHEDULE.base_seconds,
        cap=SCHEDULE.cap_seconds,
        jitter=SCHEDULE.jitter,
        attempted=sum(map(len, late)),
    )
    p50, p99 = (max(percentile(one, share) for one in late) * 1_000 for share in (0.5, 0.99))
    measures = [
        beside("retries.violations", "violations", 0, "limit", 0, method + VIOLATIONS),
        beside("retries.p50", "ms late", p50, "p99", p99, f"{method}{LATE}."),
        beside("retries.p99", "ms late", p99, "limit", LATE_MILLISECONDS_MAX, f"{method}{LATE}; limit 1."),
    ]
    if peers.available():
        measures += await _beside_peers(server, deliveries, median(percentile(one, 0.99) for one in late) * 1_000)
    return measures


async def _beside_peers(server: Server, deliveries: int, p99: float) -> list[Measure]:
    jobs = max(1, deliveries // PEER_SHARE)
    done: dict[str, Attempts] = {
        "pgqueuer": await peers.pgqueuer(server, jobs, 1),
        "procrastinate": await peers.procrastinate(server, jobs, 1),
    }
    measures = []
    for peer, attempts in done.items():
        theirs = percentile(attempts.late_seconds, 0.99) * 1_000
        measures.append(beside(f"retries.{peer}", "ms late", p99, peer, theirs, PEER.format(peer=peer)))
        twice = TWICE.format(peer=peer)
        measures.append(beside(f"retries.{peer}.twice", "sent twice", 0, peer, attempts.twice, twice))
    return measures

"""The audit of runs: each has counted what its deliveries and its provider say, and has ended or names who is held."""

from collections.abc import Mapping

from msgspec import Struct, field

from dispatcher.db.database import Database
from dispatcher.selftest.audit import SHOWN_MAX, Tally, Violation

_RUNS = """
SELECT r.id, r.channel, r.status, r.intended, r.expanded, r.sent, r.failed,
       r.skipped + r.cancelled + r.expired AS skipped, r.held, r.finished_at IS NOT NULL AS ended, q.*,
       (SELECT count(*) FROM dispatcher.campaign_events e WHERE e.run_id = r.id AND e.event = 'repair') AS repairs,
       ARRAY(SELECT s.id FROM dispatcher.delivery_state s JOIN dispatcher.deliveries d USING (id)
              WHERE d.run_id = r.id AND d.job_id IS NOT NULL AND s.held ORDER BY s.id LIMIT $1) AS held_ids
  FROM dispatcher.campaign_runs r
 CROSS JOIN LATERAL (
       SELECT sum(j.intended) AS job_intended, sum(j.sent) AS job_sent, sum(j.failed) AS job_failed,
              sum(j.held) AS job_held, count(*) FILTER (WHERE j.finished_at IS NULL AND j.held = 0) AS jobs_open
         FROM dispatcher.job_queue j WHERE j.run_id = r.id) AS q
 ORDER BY r.id
"""


class RunTally(Struct, frozen=True):
    """What a run says about itself; `held_ids` are some of those that keep it open."""

    id: int
    channel: str
    status: str
    intended: int
    sent: int
    failed: int
    skipped: int
    held: int
    held_ids: list[int] = field(default_factory=list)


async def audit_runs(database: Database, tallies: Mapping[str, Tally]) -> tuple[list[RunTally], list[Violation]]:
    """Compare every run with the tally of its class, which was taken from the deliveries and the provider's file."""
    runs: list[RunTally] = []
    violations: list[Violation] = []
    for row in await database.fetch(_RUNS, SHOWN_MAX):
        names = ("id", "channel", "status", "intended", "sent", "failed", "skipped", "held", "held_ids")
        run = RunTally(**{name: row[name] for name in names})
        runs.append(run)
        tally = tallies[run.channel]
        expected = {
            "intended": (run.intended, tally.messages),
            "expanded": (row["expanded"], tally.messages),
            "sent": (run.sent, tally.sent),
            "accepted by its provider": (run.sent, tally.accepted - tally.held_accepted),
            "failed": (run.failed, tally.failed),
            "skipped": (run.skipped, 0),
            "held": (run.held, tally.held),
            "intended by its jobs": (row["job_intended"], run.intended),
            "sent by its jobs": (row["job_sent"], run.sent),
            "failed by its jobs": (row["job_failed"], run.failed),
            "held by its jobs": (row["job_held"], run.held),
            "repairs": (row["repairs"], 0),
            "open jobs without a held delivery": (row["jobs_open"], 0),
        }
        violations += [
            Violation(f"run {run.id} ({run.channel}): {what}: {found}, and not {wanted}", abs(found - wanted))
            for what, (found, wanted) in expected.items()
            if found != wanted
        ]
        if row["ended"] != (run.held == 0):
            what = f"run {run.id} ({run.channel}) is {run.status}, with {run.held} held"
            violations.append(Violation(what, 1, run.held_ids))
    if len(runs) != len(tallies):
        violations.append(Violation(f"{len(runs)} runs for {len(tallies)} campaigns", 1))
    return runs, violations

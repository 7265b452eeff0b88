"""The `check` command: it checks every invariant, and names the limits of the promise."""

from collections.abc import Sequence
from itertools import takewhile

from msgspec import Struct, structs
from typer import Exit

from dispatcher.base.values.counts import counted
from dispatcher.cli.failures import FAILED
from dispatcher.cli.session import Session
from dispatcher.cli.terminal.launcher import launcher
from dispatcher.cli.terminal.progress import progress_bar
from dispatcher.db.health import checks
from dispatcher.db.statements import statements
from dispatcher.engine.store import instances
from dispatcher.process.providers import Readiness, readiness

IDS_SHOWN_MAX = 5

LIMITS = (
    "A failover to an asynchronous standby, a restore or a copy can forget that a call was begun: all that may have "
    "been attempted is held then, before anything is claimed there.",
    "Behind a pooler whose connections outlive the server's, a failover is noticed at the next heartbeat only: what is "
    "due until then may be sent again.",
    "A snapshot that keeps its server's identity is not noticed when it is put back: run "
    "`{launcher} quarantine --before TIME` then. Data that is restored with triggers disabled is noticed at the next "
    "start.",
    "Row-level security that binds the owner of these tables (FORCE), and writing to partitions past a table, are not "
    "for them.",
)


class Finding(Struct, frozen=True):
    """An invariant, its sentence, and the rows that break it."""

    invariant: str
    says: str
    violations: int = 0
    ids: tuple[int, ...] = ()


def says(invariant: str) -> str:
    """Return the sentence above an invariant's query."""
    lines = statements("dispatcher.db.health.checks")[invariant].splitlines()
    return " ".join(line.removeprefix("--").strip() for line in takewhile(lambda line: line.startswith("--"), lines))


def check(session: Session) -> None:
    """Check every invariant on the whole database, and name what breaks it; exit with 1 when anything does."""
    findings, yielded, providers = _look(session)
    holds = not any(finding.violations for finding in findings)
    limits = [limit.format(launcher=launcher()) for limit in LIMITS]
    if session.output.as_json:
        found = [structs.asdict(one) for one in findings]
        waits = [{"instance": name, "channel": channel} for name, channel in yielded]
        asked = [structs.asdict(one) for one in providers]
        staging = session.config.staging.enabled
        record = {"holds": holds, "invariants": found, "yielded": waits, "providers": asked, "staging": staging}
        session.output.record(record | {"limits": limits})
    else:
        _tell(session, findings, yielded, limits)
        _tell_providers(session, providers)
    if not holds:
        raise Exit(FAILED)


def _look(session: Session) -> tuple[list[Finding], list[tuple[str, str]], Sequence[Readiness]]:
    findings: list[Finding] = []
    invariants, lock_seconds = checks.invariants(), session.config.campaigns.lock_seconds
    with session.database(slow=True) as database, progress_bar(session.output, "checking", len(invariants)) as at:
        for number, invariant in enumerate(invariants):
            at(number)
            found = session.run(lambda one=invariant: checks.check(database, one, lock_seconds))  # type: ignore[misc]  # bound now
            broken = (found.count, tuple(found.ids)) if found is not None else ()
            findings.append(Finding(invariant, says(invariant), *broken))
        yielded = session.run(lambda: instances.yielded(database))
        return findings, yielded, session.run(lambda: readiness(session.config, database.connection))


def _tell(session: Session, findings: list[Finding], yielded: list[tuple[str, str]], limits: list[str]) -> None:
    rows = [
        (one.invariant.replace("_", " "), _state(one), _ids(one), one.says if one.violations else "")
        for one in findings
    ]
    broken = sum(1 for one in findings if one.violations)
    columns = ("invariant", "holds", "first ids", "which says") if broken else ("invariant", "holds")
    session.output.table(columns, (row[: len(columns)] for row in rows))
    session.output.text(f"\n{broken} of {len(findings)} do not hold." if broken else f"\nAll {len(findings)} hold.")
    for name, channel in yielded:
        session.output.text(f"\n{name} claims nothing from {channel}: another replica has another provider for it.")
    if words := session.config.staging.words:
        session.output.text(f"\n{words}.")
    session.output.text("\nWhat the promise does not cover:")
    for limit in limits:
        session.output.text(f"- {limit}")


def _tell_providers(session: Session, providers: Sequence[Readiness]) -> None:
    if providers:
        session.output.text("")
        rows = [(one.channel, one.provider, "yes" if one.ready else "no", one.reason) for one in providers]
        session.output.table(("channel", "provider", "ready", "because"), rows)


def _state(finding: Finding) -> str:
    if not finding.violations:
        return "ok"
    return counted(finding.violations, "violation")


def _ids(finding: Finding) -> str:
    shown = ", ".join(str(one) for one in finding.ids[:IDS_SHOWN_MAX])
    return f"{shown} …" if finding.violations > IDS_SHOWN_MAX else shown

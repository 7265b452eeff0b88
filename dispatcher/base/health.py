"""Health: whether the process is alive and ready, for probes and the console."""

from collections.abc import Callable, Mapping

from msgspec import Struct


class Health(Struct):
    """`ticked_at` moves while the loop turns. Ready means: a pipeline is up, Postgres answers, not draining."""

    monotonic: Callable[[], float]
    ticked_at: float
    # The channels from which nothing is claimed here, since another replica has another provider for them, each with a
    # sentence that says so; and how many channels there are.
    yielded: Callable[[], Mapping[str, str]]
    channels: int
    state: str = "starting"
    draining: bool = False
    pipeline_up: bool = False
    database_away_since: float | None = None
    # What is told to everybody while only chosen recipients get messages; empty: all do.
    staging: str = ""
    # The number of the cell that this process serves; 0: there is only one.
    cell: int = 0

    # An event loop that has not run for this long is stuck.
    TICK_SECONDS = 0.5
    STUCK_SECONDS = 10.0

    def tick(self) -> None:
        self.ticked_at = self.monotonic()

    def alive(self) -> bool:
        """Whether the event loop runs."""
        return self.monotonic() - self.ticked_at < self.STUCK_SECONDS

    def unready(self) -> list[str]:
        """Return every reason why this process takes no work."""
        reasons: list[str] = []
        if self.draining:
            reasons.append("draining")
        if self.database_away_since is not None:
            reasons.append(f"database away for {self.monotonic() - self.database_away_since:.0f} s")
        if not self.pipeline_up and not self.draining:
            reasons.append(self.state)
        if len(self.yielded()) == self.channels > 0:
            reasons.append("other replicas have other providers for every channel")
        return reasons

    def warnings(self) -> list[str]:
        """Return what everybody should know of a process that works."""
        return [*self.yielded().values(), *filter(None, (self.staging,))]

"""The metrics: everything that is counted, declared once, on a registry of its own."""

from dispatcher.base.ended import Ended
from dispatcher.base.series import Counter, Gauge, Histogram, HistogramSeries, Process, Registry
from dispatcher.base.version import VERSION

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)
_REQUEST_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
# Each pair of channel and tenant has up to eight series. Ten thousand tenants must not fill a Prometheus.
PAIRS_MAX = 500
# The tenant that stands for those beyond the bound.
OTHER = "other"


class TenantLabels:
    """The labels of channel and tenant: so many pairs, first come, and for the rest one tenant `other` per channel."""

    def __init__(self, pairs_max: int = PAIRS_MAX) -> None:
        self._pairs_max = pairs_max
        self._known: set[tuple[str, str]] = set()

    def of(self, channel: str, tenant: str) -> tuple[str, str]:
        """Return the labels of a channel and a tenant."""
        pair = channel, tenant
        if pair in self._known:
            return pair
        if len(self._known) < self._pairs_max:
            self._known.add(pair)
            return pair
        return channel, OTHER


class Metrics:
    """Counters, gauges and histograms by name. One per process; tests make their own."""

    def __init__(self) -> None:
        self.registry = Registry()
        self.tenants = TenantLabels()
        self.ended = Ended()
        self._engine()
        self._features()
        self._database()
        self._process()
        self._begin_at_zero()

    def _engine(self) -> None:
        counter, gauge = self._counter, self._gauge
        self.claim_seconds = self._histogram("claim_seconds", "Time of one claim statement", _SECONDS).only
        self.mark_seconds = self._histogram(
            "mark_seconds", "Time of one mark, its commit to disk included", _SECONDS
        ).only
        self.flush_seconds = self._histogram(
            "flush_seconds", "Time of one flush, retries of it included", _SECONDS
        ).only
        self.render_seconds = self._histogram("render_seconds", "Time of rendering up to 100 deliveries", _SECONDS).only
        self.claim_size = self._histogram("claim_deliveries", "Deliveries in one claim", _SIZES).only
        self.mark_size = self._histogram("mark_deliveries", "Deliveries in one mark", _SIZES).only
        self.flush_size = self._histogram("flush_deliveries", "Deliveries in one flush", _SIZES).only
        self._calls = self._histogram("call_seconds", "Time of one batch at the provider", _SECONDS, "channel")

        self._outcomes = counter(
            "outcomes",
            "Deliveries by what became of them: succeeded, failed, skipped, again, back, held, lost",
            "channel",
            "tenant",
            "outcome",
        )
        self.fenced_writes = counter(
            "fenced_writes", "Results that came when the claim was not ours any more", "channel", "became"
        )
        self.fenced_instances = counter("fenced_instances", "Instances that this one took to be dead")
        self.recovered = counter("recovered", "Deliveries taken back from dead instances", "how")
        self.depth = gauge(
            "queue_depth", "Deliveries that are ready, due or not, counted to 100,000", "channel", "lane"
        )
        self.due_age = gauge("queue_oldest_due_seconds", "How late the oldest due delivery is", "channel", "lane")
        self.in_lane = gauge("lane_deliveries", "Deliveries between claim and result", "channel", "lane")
        self.marked = gauge("marked_deliveries", "Deliveries between mark and verdict", "channel", "lane")
        self.results = gauge("results_waiting", "Results that wait for Postgres")
        self.held = gauge(
            "held_deliveries", "Deliveries whose call was begun and whose outcome nobody knows", "channel"
        )
        self.channel_ready = gauge(
            "channel_ready", "1 when the last connection that a channel needed was there, 0 when it was not", "channel"
        )
        self.channel_paused = gauge("channel_paused", "1 while an operator has paused the whole channel", "channel")
        self.provider_ready = gauge(
            "provider_ready",
            "Of several providers: 1 while it may be called, 0 while it is paused or broken",
            "channel",
            "provider",
        )
        self.provider_verdicts = counter(
            "provider_verdicts", "Of several providers: calls by what they came to", "channel", "provider", "verdict"
        )
        self.channel_disagrees = gauge(
            "channel_disagrees", "1 while a channel is left to replicas with another provider for it", "channel"
        )

    def _features(self) -> None:
        counter, gauge = self._counter, self._gauge
        self.runs = counter(
            "runs", "Runs of workflows and sequences that have ended by themselves: completed, failed", "kind", "status"
        )
        self.runs_due = gauge("runs_due", "Runs that a walker is to take up, counted to 100,000", "lane")
        self.runs_due_age = gauge("runs_oldest_due_seconds", "How late the oldest due run is", "lane")
        self.walk_seconds = self._histogram("walk_seconds", "Time of one walk, its commit included", _SECONDS).only
        self.walk_size = self._histogram("walk_runs", "Runs in one walk", _SIZES).only
        self.dead_letters = gauge(
            "dead_letters", "Dead letters that nobody has discarded, counted to 10,000: run, delivery, job", "kind"
        )
        self.ticks = counter("ticks", "Ticks of schedules: triggered, refused, missed", "result")
        self.campaign_jobs = counter("campaign_jobs", "Jobs of campaigns: expanded, failed, taken back, dead", "result")
        self.campaign_repairs = counter(
            "campaign_repairs", "Jobs of finished runs whose counters differed from their deliveries; must be 0"
        )
        self.campaign_runs = gauge("campaign_runs", "Runs of campaigns that have not ended: queued, running", "status")
        self.campaign_jobs_waiting = gauge(
            "campaign_jobs_waiting", "Jobs of campaigns that are to be expanded, counted to 10,000"
        )
        self.campaign_deliveries = gauge(
            "campaign_deliveries",
            "Deliveries of campaign runs that have not ended: intended, expanded, sent, failed, skipped, held",
            "state",
        )
        self.events = counter("webhook_events", "Events that were written as deliveries for endpoints", "event")
        self.barred = counter("barred", "Claimed deliveries that were suppressed or unsubscribed from", "channel")
        self.capped = counter("capped", "Deliveries that were skipped by a frequency cap", "channel")
        self.receipts = counter(
            "receipts", "Receipts by what became of them, or of who posted them", "provider", "became"
        )
        self.receipts_waiting = gauge("receipts_waiting", "Receipts whose delivery was not found yet")

    def _database(self) -> None:
        gauge = self._gauge
        self.database_away = gauge("database_away_seconds", "How long Postgres has been away; 0 when it is not")
        self.database_bytes = gauge("database_bytes", "Size of the database")
        self.connections = gauge(
            "database_connections",
            "Connections of all clients of the server: active, idle, idle_in_transaction, other",
            "state",
        )
        self.connections_max = gauge("database_connections_max", "Connections that the server takes")
        self.lock_waits = gauge("database_lock_waits", "Connections to the database that wait for a lock")
        self.oldest_transaction = gauge(
            "database_oldest_transaction_seconds", "Age of the oldest transaction, which keeps vacuum from its work"
        )
        self.deadlocks = gauge("database_deadlocks", "Deadlocks since the statistics of the server were reset")
        self.table_bytes = gauge("table_bytes", "Size of a table with its indexes, as of its last vacuum", "table")
        self.table_rows = gauge(
            "table_rows", "Rows of a table as autovacuum estimates them: live, dead", "table", "state"
        )
        self.table_inserted = gauge(
            "table_inserted_rows", "Rows inserted since the statistics of the server were reset", "table"
        )

    def _process(self) -> None:
        counter, gauge = self._counter, self._gauge
        self.registry.others.append(Process("dispatcher"))
        self._gauge("info", "1, with the version of the program", "version").labels(VERSION).set(1)
        self.cell = gauge("cell", "1, with the number of the cell that is served, where there are several", "cell")
        self._requests = counter("http_requests", "Requests by the status that was answered, without probes", "status")
        self._request_seconds = self._histogram(
            "http_request_seconds", "Time until the head of an answer, without probes", _REQUEST_SECONDS
        ).only
        self.restarts = counter("restarts", "Crashes of a part that was started again", "part")
        self.reloads = counter("config_reloads", "Reloads of the configuration", "result")
        self.alerts = counter("alerts", "Messages about errors of this process: sent, failed", "result")
        self.spans = counter(
            "spans", "Spans of traces: exported, failed (not taken by the collector), dropped", "result"
        )
        self.alerts_dropped = counter("alerts_dropped", "Errors whose kind was forgotten, since too many kinds waited")
        self.config_differs = gauge("config_peers_differ", "Replicas that run with another configuration")
        self.instances = gauge("instances", "Instances that are registered")
        self.loop_hold = gauge("loop_hold_seconds", "The longest hold of the event loop in the last minute")
        self.ready = gauge("ready", "1 when this process takes work")

    def _begin_at_zero(self) -> None:
        """Make the series of rare events: an increase from nothing to one is none for Prometheus."""
        for became in ("requeued", "retried", "held", "poisoned"):
            self.recovered.labels(became)
        for kind in ("workflow", "sequence"):
            for status in ("completed", "failed"):
                self.runs.labels(kind, status)
        for result in ("triggered", "refused", "missed"):
            self.ticks.labels(result)
        for result in ("expanded", "failed", "taken_back", "dead"):
            self.campaign_jobs.labels(result)
        for result in ("applied", "refused"):
            self.reloads.labels(result)
        for result in ("sent", "failed"):
            self.alerts.labels(result)
        for result in ("exported", "failed", "dropped"):
            self.spans.labels(result)

    def count_outcomes(self, channel: str, tenant: str, outcome: str, count: int) -> None:
        """Count deliveries by their outcome."""
        self._outcomes.labels(*self.tenants.of(channel, tenant), outcome).inc(count)

    def count_run(self, status: str, count: int = 1, *, is_enrolment: bool) -> None:
        """Count runs that have ended."""
        self.runs.labels("sequence" if is_enrolment else "workflow", status).inc(count)

    def answered(self, status: int, seconds: float) -> None:
        """Count a request, and the time until its answer began."""
        self._requests.labels(str(status)).inc()
        self._request_seconds.observe(seconds)

    def call_seconds(self, channel: str) -> HistogramSeries:
        """Return the times of a channel's calls."""
        return self._calls.labels(channel)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        made = Counter(f"dispatcher_{name}", text, labels)
        self.registry.families.append(made)
        return made

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        made = Gauge(f"dispatcher_{name}", text, labels)
        self.registry.families.append(made)
        return made

    def _histogram(self, name: str, text: str, bounds: tuple[float, ...], *labels: str) -> Histogram:
        made = Histogram(f"dispatcher_{name}", text, bounds, labels)
        self.registry.families.append(made)
        return made

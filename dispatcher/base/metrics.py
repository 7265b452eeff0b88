"""The metrics: everything that is counted, declared once, on a registry of its own."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000)


class Metrics:
    """Counters, gauges and histograms by name. One per process; tests make their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry(auto_describe=True)
        self._engine()
        self._features()
        self._process()

    def _engine(self) -> None:
        counter, gauge = self._counter, self._gauge
        self.claim_seconds = self._histogram("claim_seconds", "Time of one claim statement", _SECONDS)
        self.mark_seconds = self._histogram("mark_seconds", "Time of one mark, its commit to disk included", _SECONDS)
        self.flush_seconds = self._histogram("flush_seconds", "Time of one flush, retries of it included", _SECONDS)
        self.render_seconds = self._histogram("render_seconds", "Time of rendering up to 100 deliveries", _SECONDS)
        self.claim_size = self._histogram("claim_deliveries", "Deliveries in one claim", _SIZES)
        self.mark_size = self._histogram("mark_deliveries", "Deliveries in one mark", _SIZES)
        self.flush_size = self._histogram("flush_deliveries", "Deliveries in one flush", _SIZES)
        self._calls = self._histogram("call_seconds", "Time of one batch at the provider", _SECONDS, "channel")

        self.outcomes = counter(
            "outcomes",
            "Deliveries by what became of them: succeeded, failed, skipped, again, back, held, lost",
            "channel",
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
        counter = self._counter
        self.runs = counter("runs", "Runs of workflows that have ended by themselves: completed, failed", "status")
        self.ticks = counter("ticks", "Ticks of schedules: triggered, refused, missed", "result")
        self.campaign_jobs = counter("campaign_jobs", "Jobs of campaigns: expanded, failed, taken back, dead", "result")
        self.campaign_repairs = counter(
            "campaign_repairs", "Jobs of finished runs whose counters differed from their deliveries; must be 0"
        )
        self.events = counter("webhook_events", "Events that were written as deliveries for endpoints", "event")
        self.barred = counter("barred", "Claimed deliveries that were suppressed or unsubscribed from", "channel")
        self.receipts = counter(
            "receipts", "Receipts by what became of them, or of who posted them", "provider", "became"
        )
        self.receipts_waiting = self._gauge("receipts_waiting", "Receipts whose delivery was not found yet")

    def _process(self) -> None:
        counter, gauge = self._counter, self._gauge
        self.restarts = counter("restarts", "Crashes of a part that was started again", "part")
        self.reloads = counter("config_reloads", "Reloads of the configuration", "result")
        self.alerts = counter("alerts", "Messages about errors of this process: sent, failed", "result")
        self.alerts_dropped = counter("alerts_dropped", "Errors whose kind was forgotten, since too many kinds waited")
        self.config_differs = gauge("config_peers_differ", "Replicas that run with another configuration")
        self.instances = gauge("instances", "Instances that are registered")
        self.database_away = gauge("database_away_seconds", "How long Postgres has been away; 0 when it is not")
        self.loop_hold = gauge("loop_hold_seconds", "The longest hold of the event loop in the last minute")
        self.ready = gauge("ready", "1 when this process takes work")

    def call_seconds(self, channel: str) -> Histogram:
        return self._calls.labels(channel)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"dispatcher_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"dispatcher_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"dispatcher_{name}", text, labels, buckets=buckets, registry=self.registry)

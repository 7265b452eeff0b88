"""The configuration: frozen structs in which every bound has a name, a unit, a range and a default."""

import socket
from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, Struct, field
from msgspec.structs import replace

from dispatcher.config.cell import Cell
from dispatcher.config.values import (
    AddressRanges,
    Bytes,
    Certificates,
    CollectorUrl,
    Count,
    FunctionUrl,
    LongText,
    Name,
    Option,
    Origins,
    PostgresUrl,
    PublicUrl,
    Rate,
    Seconds,
    Secrets,
    SentryDsn,
    Share,
    ShortText,
    SnsTopics,
    TargetName,
    Token,
    WebhookSecrets,
    WebhookUrl,
    WorkspacePath,
    described,
)

CHANNELS = ("email", "sms", "whatsapp", "push", "voice", "social", "chat", "http", "webhook")
# Channels whose default provider is not `capture`.
DEFAULT_PROVIDERS = {"webhook": "webhooks"}


class Database(Struct, frozen=True, forbid_unknown_fields=True):
    """Which Postgres, and how it is reached. Without a URL the embedded one in `data_dir` is started."""

    url: PostgresUrl = ""
    # If `url` leads through a pooler: Postgres itself, for LISTEN and migrations.
    listen_url: PostgresUrl = ""
    # The pooler supports prepared statements: pgbouncer from 1.21 on, with max_prepared_statements.
    pooler_prepares: bool = False
    data_dir: LongText = "~/.local/share/dispatcher"
    pool_max: Annotated[int, Meta(ge=4, le=200)] = 10
    connect_seconds_max: Seconds = 10.0
    statement_seconds_max: Seconds = 30.0


class Instance(Struct, frozen=True, forbid_unknown_fields=True):
    """This process among the replicas: its heartbeat, its lease, and how long its marks are valid."""

    name: ShortText = field(default_factory=socket.gethostname)
    heartbeat_seconds: Seconds = 2.0
    # Others take over after this long without a heartbeat.
    lease_seconds: Seconds = 10.0
    # A provider call may begin this long after its mark was asked for, then never: shorter than the lease.
    licence_seconds: Seconds = 5.0
    # After SIGTERM calls in flight may take this long before they count as unknown.
    grace_seconds: Seconds = 25.0


class Claim(Struct, frozen=True, forbid_unknown_fields=True):
    """How deliveries are claimed."""

    batch_max: Annotated[int, Meta(ge=1, le=10_000)] = 1_000
    # Deliveries of one lane of one channel that may be between claim and result.
    lane_capacity: Annotated[int, Meta(ge=1, le=100_000)] = 6_000
    poll_seconds: Seconds = 1.0
    poll_jitter: Share = 0.2


class Flush(Struct, frozen=True, forbid_unknown_fields=True):
    """How results are written: a full batch at once, fewer after a short wait for more."""

    batch_max: Annotated[int, Meta(ge=1, le=10_000)] = 1_000
    linger_seconds: Annotated[float, Meta(ge=0, le=1)] = 0.01
    # Results that may wait for Postgres; above it senders stop marking.
    pending_max: Count = 20_000


class Walk(Struct, frozen=True, forbid_unknown_fields=True):
    """How runs of workflows are walked: how many in one transaction, how long to wait for a fuller batch, and how often
    they are polled. Schedules are polled as often."""

    batch_max: Annotated[int, Meta(ge=1, le=5_000)] = 500
    linger_seconds: Annotated[float, Meta(ge=0, le=1)] = 0.01
    poll_seconds: Seconds = 1.0


class Campaigns(Struct, frozen=True, forbid_unknown_fields=True):
    """How campaigns are expanded: how many deliveries of a run may wait, after how long a dead worker's job is queued
    again, and how often campaigns are looked at without being woken."""

    ahead_max: Annotated[int, Meta(ge=1_000, le=1_000_000)] = 20_000
    lock_seconds: Seconds = 300.0
    poll_seconds: Seconds = 1.0


class Retry(Struct, frozen=True, forbid_unknown_fields=True):
    """Wait after attempt n: base * 2^(n-1), capped; jitter is a share of the wait that is added at random."""

    base_seconds: Seconds = 60.0
    cap_seconds: Seconds = 3_600.0
    jitter: Share = 0.0


class Limits(Struct, frozen=True, forbid_unknown_fields=True):
    """The largest sizes of one delivery. Over a limit the delivery fails with the field's name."""

    template_bytes_max: Bytes = 256 * 1024
    variables_bytes_max: Bytes = 256 * 1024
    rendered_bytes_max: Bytes = 1024 * 1024
    templates_cached_max: Count = 1_000
    # Stored objects in memory, for each lane that sends any.
    objects_bytes_max: Bytes = 32 * 1024 * 1024


class Http(Struct, frozen=True, forbid_unknown_fields=True):
    """The listener of health, metrics and API. Port 0 picks a free one and logs it; `enabled = false` opens none."""

    enabled: bool = True
    # Never empty: asyncio would take that for every interface.
    host: ShortText = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65_535)] = 8085
    # Over this, the connection that has been longest without a request is closed.
    connections_max: Annotated[int, Meta(ge=8, le=10_000)] = 500
    # For the head of a request to arrive.
    head_seconds_max: Seconds = 10.0


class Api(Struct, frozen=True, forbid_unknown_fields=True):
    """Limits of the HTTP API, for each of its callers and for all of them."""

    # A pool of its own, so that callers cannot keep the dispatcher from the database.
    connections: Annotated[int, Meta(ge=4, le=200)] = 10
    body_bytes_max: Annotated[int, Meta(ge=1_024, le=16 * 1024 * 1024)] = 2 * 1024 * 1024
    # Of many deliveries at once.
    batch_bytes_max: Annotated[int, Meta(ge=1_024, le=64 * 1024 * 1024)] = 16 * 1024 * 1024
    body_seconds_max: Seconds = 5.0
    request_seconds_max: Seconds = 15.0
    # Of each key, in each process; a rate of 0 is no limit.
    key_rate_per_second: Rate = 5_000.0
    key_rate_burst: Rate = 5_000.0
    # While what is due in a channel, and not in bulk, has waited for this long, more is refused. 0 never refuses.
    shed_after_seconds: Annotated[float, Meta(ge=0, le=604_800)] = 600.0
    # The workspace (tenant/workspace) whose administrators may set pauses and make keys for all. Empty: none.
    operators: WorkspacePath = "default/default"
    # Pages of these origins may call it.
    allow_origins: Origins = ""


class Unsubscribe(Struct, frozen=True, forbid_unknown_fields=True):
    """Links by which recipients unsubscribe. Both or neither: without them there are no links and no pages."""

    # The outside address of the listener's /u/.
    public_url: PublicUrl = ""
    # The first signs, all verify: put a new one before the old ones, which stay for as long as their mails are read.
    secrets: Secrets = ""


class Receipts(Struct, frozen=True, forbid_unknown_fields=True):
    """Which providers may report what became of deliveries, at /receipts/PROVIDER: those with a secret here.

    Several secrets of one provider are all valid, so that one can be replaced by another.
    """

    # The outside address of the listener's /receipts/: Twilio signs the URL that it calls.
    public_url: PublicUrl = ""
    twilio_tokens: Secrets = ""
    resend_secrets: WebhookSecrets = ""
    generic_secrets: WebhookSecrets = ""
    # SNS signs the messages of all its customers with the same key: these are our topics.
    ses_topics: SnsTopics = ""
    # The certificate of SNS in our region, in PEM, fetched once by hand.
    ses_certificates: Certificates = ""


class Alerts(Struct, frozen=True, forbid_unknown_fields=True):
    """Messages about errors of the dispatcher itself, to Slack and to Sentry. Without a URL none are sent."""

    # An incoming webhook of Slack.
    slack: WebhookUrl = ""
    allow_addresses: AddressRanges = ""
    # A message begins with it, before the instance's name.
    environment: Annotated[str, described("a text of at most 64 characters", length_max=64)] = ""
    # How long the first error waits for others.
    collect_seconds: Seconds = 5.0
    # Between two messages; errors meanwhile are in the next one.
    every_seconds: Seconds = 60.0
    # An outage of the database is reported once it has lasted for so long.
    database_away_seconds: Seconds = 30.0
    # A project of Sentry, which gets each kind of error as an event.
    sentry: SentryDsn = ""


class Tracing(Struct, frozen=True, forbid_unknown_fields=True):
    """Spans of deliveries, exported to a collector of OpenTelemetry. Without an endpoint there are none."""

    # The URL that takes traces by OTLP over HTTP: http://collector:4318/v1/traces.
    endpoint: CollectorUrl = ""
    # Of deliveries without a traceparent. With one, it is as the caller has decided.
    sampling_ratio: Share = 0.01
    service_name: ShortText = "dispatcher"


class Staging(Struct, frozen=True, forbid_unknown_fields=True):
    """Only chosen recipients get messages, by the real providers. All others are skipped, or redirected."""

    enabled: bool = False
    # Mail addresses, @domains, numbers, channel:NAME, and any other recipients as they are.
    allow: Annotated[str, described("recipients with spaces between them", length_max=65_536)] = ""
    # channel=recipient: who gets the messages of a channel that are for anybody else.
    redirect: Annotated[str, described("channel=recipient, spaces between them", length_max=65_536)] = ""

    @property
    def words(self) -> str:
        """What people should know of it; empty where everybody gets messages."""
        if not self.enabled:
            return ""
        channels = sorted(word.partition("=")[0] for word in self.redirect.split())
        others = f"redirected by {', '.join(channels)} and skipped by other channels" if channels else "skipped"
        return f"staging: only recipients of the allow-list get messages, those to others are {others}"


class Log(Struct, frozen=True, forbid_unknown_fields=True):
    """Logs carry ids, never content."""

    level: Literal["debug", "info", "warning", "error"] = "info"
    format: Literal["json", "console"] = "json"


class Supervisor(Struct, frozen=True, forbid_unknown_fields=True):
    """How often a crashed pipeline or service may be started again before the process gives up."""

    restarts_max: Annotated[int, Meta(ge=0, le=1_000)] = 5
    window_seconds: Seconds = 60.0


class Janitor(Struct, frozen=True, forbid_unknown_fields=True):
    """Housekeeping: finished claims are deleted, expired deliveries skipped, gauges of the backlog read."""

    interval_seconds: Seconds = 10.0
    page_max: Annotated[int, Meta(ge=1, le=100_000)] = 5_000


class Faults(Struct, frozen=True, forbid_unknown_fields=True):
    """Injected faults of capture and blackhole: each is a probability per message, drawn from the seed."""

    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] = 0
    latency: Share = 0.0
    latency_seconds: Annotated[float, Meta(ge=0, le=3_600)] = 0.1
    refuse: Share = 0.0
    # Refused because of the address, which is then suppressed.
    bounce: Share = 0.0
    retry: Share = 0.0
    throttle: Share = 0.0
    throttle_seconds: Annotated[float, Meta(ge=0, le=3_600)] = 1.0
    unknown: Share = 0.0
    hang: Share = 0.0


class ChannelProvider(Struct, frozen=True, forbid_unknown_fields=True):
    """One of the providers of a channel that has several: what it is, its part of the traffic, and its limits."""

    # It has no default: what nobody has chosen sends to nobody.
    provider: Name = ""
    # Its part of the deliveries, beside the weights of the others. All 0: the first provider gets all.
    weight: Annotated[float, Meta(ge=0, le=1_000)] = 0.0
    # As those of a channel.
    rate_per_second: Rate = 0.0
    rate_burst: Rate = 0.0
    # After so many failed calls in a row, and at once where it refuses us or cannot be reached, the others get its
    # deliveries for so long; then one delivery tries it again. The time doubles up to ten minutes.
    breaker_failures: Annotated[int, Meta(ge=1, le=1_000)] = 10
    breaker_seconds: Annotated[float, Meta(gt=0, le=600)] = 30.0
    options: Annotated[dict[Name, Option], Meta(max_length=64)] = {}

    @property
    def rates(self) -> tuple[float, float, float, float]:
        """Tokens a second and the bucket; tenants and domains have theirs from the channel."""
        return self.rate_per_second, self.rate_burst, 0.0, 0.0


class Channel(Struct, frozen=True, forbid_unknown_fields=True):
    """One channel: its provider or its providers, and its limits."""

    provider: Name = "capture"
    # In place of `provider` and `options`: several, by names of one's own. A name stands for an account.
    providers: Annotated[dict[Name, ChannelProvider], Meta(max_length=8)] = {}
    # Deliveries over the rate of their provider, or while it asks to be left alone, go to the next one; else they wait.
    overflow: bool = False
    # Deliveries that may be between mark and result: what a kill can leave held. Lanes share it.
    marked_max: Annotated[int, Meta(ge=3, le=10_000)] = 500
    # Tokens a second and the size of the bucket; 0 is no limit. In any second at most their sum is sent. A burst of 0
    # is a fiftieth of a second's tokens.
    rate_per_second: Rate = 0.0
    rate_burst: Rate = 0.0
    tenant_rate_per_second: Rate = 0.0
    domain_rate_per_second: Rate = 0.0
    call_seconds_max: Seconds = 30.0
    # An unknown outcome is sent again instead of held: only where a duplicate does no harm.
    at_least_once: bool = False
    # A held delivery counts as failed after this; 0 is never: an operator decides.
    held_timeout_seconds: Annotated[float, Meta(ge=0, le=31_536_000)] = 0.0
    # Declared, bounded and checked by the provider; 64 is far above what any of them has.
    options: Annotated[dict[Name, Option], Meta(max_length=64)] = {}
    faults: Faults = Faults()

    @property
    def rates(self) -> tuple[float, float, float, float]:
        """Tokens a second and the bucket, then those of each tenant and each domain."""
        return self.rate_per_second, self.rate_burst, self.tenant_rate_per_second, self.domain_rate_per_second

    @property
    def each_provider(self) -> Mapping[str, ChannelProvider]:
        """Its providers by name, in their order; a single one is called as what it is."""
        if self.providers:
            return self.providers
        return {self.provider: ChannelProvider(self.provider, options=self.options)}

    @property
    def pausable(self) -> tuple[tuple[str, ...], ...]:
        """The names by which a pause may mean each of its providers."""
        return tuple((name, one.provider) for name, one in self.each_provider.items())


class Function(Struct, frozen=True, forbid_unknown_fields=True):
    """A function that deliveries on a channel with the provider `functions` call by its name."""

    url: FunctionUrl = ""
    # Sent as `Authorization: Bearer`; without one there is no such header.
    token: Token = ""
    # For one call as a whole. A delivery's option `timeout_seconds` can lower it.
    timeout_seconds: Annotated[float, Meta(gt=0, le=3_600)] = 20.0
    # It recognises repeated keys: a call with an unknown outcome is repeated with the same key, and not held.
    idempotent: bool = False
    # Which failures are retried: `transient` ones (by status, or as the answer says), `never` any, `always` all.
    retry: Literal["transient", "never", "always"] = "transient"
    # An answer becomes part of its run: a megabyte is far above any useful answer.
    answer_bytes_max: Annotated[int, Meta(ge=256, le=1024 * 1024)] = 64 * 1024
    # Calls of this function under way at a time, in each process.
    connections: Annotated[int, Meta(ge=1, le=256)] = 16
    allow_addresses: AddressRanges = ""


class Webhook(Struct, frozen=True, forbid_unknown_fields=True):
    """A URL that takes messages for one place, such as a chat room: it is a secret, since it permits writing there."""

    url: WebhookUrl = ""
    allow_addresses: AddressRanges = ""


def _default_channels() -> dict[str, Channel]:
    made = {name: Channel() for name in CHANNELS}
    return made | {name: Channel(provider=provider) for name, provider in DEFAULT_PROVIDERS.items()}


class Config(Struct, frozen=True, forbid_unknown_fields=True):
    """The configuration. With nothing configured: embedded Postgres, and every channel captures."""

    database: Database = Database()
    instance: Instance = field(default_factory=Instance)
    cell: Cell = Cell()
    claim: Claim = Claim()
    flush: Flush = Flush()
    walk: Walk = Walk()
    campaigns: Campaigns = Campaigns()
    retry: Retry = Retry()
    limits: Limits = Limits()
    http: Http = Http()
    api: Api = Api()
    unsubscribe: Unsubscribe = Unsubscribe()
    receipts: Receipts = Receipts()
    alerts: Alerts = Alerts()
    tracing: Tracing = Tracing()
    staging: Staging = Staging()
    log: Log = Log()
    supervisor: Supervisor = Supervisor()
    janitor: Janitor = Janitor()
    # Each channel has its own lanes and sender: 64 is far above any real list and keeps start-up bounded.
    channels: Annotated[dict[Name, Channel], Meta(max_length=64)] = field(default_factory=_default_channels)
    # Each has connections of its own.
    functions: Annotated[dict[TargetName, Function], Meta(max_length=256)] = {}
    webhooks: Annotated[dict[TargetName, Webhook], Meta(max_length=256)] = {}

    @property
    def api_database(self) -> Database:
        """The settings of the API's own pool: no statement takes longer than a request."""
        seconds = min(self.database.statement_seconds_max, self.api.request_seconds_max)
        return replace(self.database, pool_max=self.api.connections, statement_seconds_max=seconds)

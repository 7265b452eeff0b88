"""The cases of the alerts: series, a value each minute, in which an alert fires, and near ones in which it does not."""

from collections.abc import Mapping, Sequence

from msgspec import Struct, field

# A series without job and instance, and its values as promtool writes them: `0+2x9` counts up by 2 nine times.
Series = tuple[str, str]


class Case(Struct, frozen=True):
    """Series, and whether the alert fires at a minute; `labels` are those that it carries beside job and severity."""

    alert: str
    series: Sequence[Series]
    minute: int
    fires: bool = True
    labels: Mapping[str, str] = field(default_factory=dict)


class _Alert:
    """The cases of one alert: `fires` with labels, `quiet` without."""

    def __init__(self, name: str, **labels: str) -> None:
        self._name = name
        self._labels = labels

    def fires(self, minute: int, *series: Series) -> Case:
        """A case in which it fires."""
        return Case(self._name, series, minute, True, self._labels)

    def quiet(self, minute: int, *series: Series) -> Case:
        """A case in which it does not."""
        return Case(self._name, series, minute, False)


SMS = {"channel": "sms"}
_missing = _Alert("DispatcherNotScraped")
_none_ready = _Alert("DispatcherNoneReady")
_replica = _Alert("DispatcherReplicaNotReady", instance="b")
_crashing = _Alert("DispatcherCrashing", instance="a", part="walker")
_fenced = _Alert("DispatcherReplicaFenced")
_differ = _Alert("DispatcherConfigurationsDiffer")
_refused = _Alert("DispatcherConfigurationRefused", instance="a")
_api = _Alert("DispatcherApiFails")
_transactional = _Alert("DispatcherTransactionalLate", **SMS)
_normal = _Alert("DispatcherNormalLate", **SMS)
_bulk = _Alert("DispatcherBulkStalled", **SMS)
_grows = _Alert("DispatcherHeldGrows", **SMS)
_held = _Alert("DispatcherHeldWaits", **SMS)
_fail = _Alert("DispatcherDeliveriesFail", **SMS)
_tenant = _Alert("DispatcherTenantFails", tenant="acme")
_retries = _Alert("DispatcherRetriesDominate", **SMS)
_unreachable = _Alert("DispatcherProviderUnreachable", **SMS)
_passed = _Alert("DispatcherProviderPassedOver", channel="sms", provider="one")
_disagrees = _Alert("DispatcherChannelDisagrees", **SMS)
_paused = _Alert("DispatcherChannelPaused", **SMS)
_poisoned = _Alert("DispatcherPoisoned")
_dead = _Alert("DispatcherDeadLettersGrow", kind="run")
_runs = _Alert("DispatcherRunsLate", lane="normal")
_schedules = _Alert("DispatcherSchedulesMissed")
_jobs = _Alert("DispatcherCampaignJobsDead")
_repaired = _Alert("DispatcherCampaignCountersRepaired")
_away = _Alert("DispatcherDatabaseAway")
_marks = _Alert("DispatcherMarksSlow")
_connections = _Alert("DispatcherConnectionsShort")
_old = _Alert("DispatcherTransactionOld")
_vacuum = _Alert("DispatcherVacuumBehind", table="delivery_state")

READY = "dispatcher_ready"
DIFFER = "dispatcher_config_peers_differ"
AWAY = "dispatcher_database_away_seconds"
TRANSACTION = "dispatcher_database_oldest_transaction_seconds"
PAUSED = 'dispatcher_channel_paused{channel="sms"}'
HELD = 'dispatcher_held_deliveries{channel="sms"}'
CHANNEL_READY = 'dispatcher_channel_ready{channel="sms"}'
PROVIDER_READY = 'dispatcher_provider_ready{channel="sms",provider="one"}'
DISAGREES = 'dispatcher_channel_disagrees{channel="sms"}'
CRASHES = 'dispatcher_restarts_total{part="walker"}'
FENCED = "dispatcher_fenced_instances_total"
RELOADS = 'dispatcher_config_reloads_total{result="refused"}'
POISONED = 'dispatcher_recovered_total{how="poisoned"}'
DEAD = 'dispatcher_dead_letters{kind="run"}'
RUNS = 'dispatcher_runs_oldest_due_seconds{lane="normal"}'
JOBS = 'dispatcher_campaign_jobs_total{result="dead"}'
REPAIRS = "dispatcher_campaign_repairs_total"
MAX = "dispatcher_database_connections_max"


def _age(lane: str) -> str:
    return f'dispatcher_queue_oldest_due_seconds{{channel="sms",lane="{lane}"}}'


def _outcome(outcome: str, tenant: str = "acme", channel: str = "sms") -> str:
    return f'dispatcher_outcomes_total{{channel="{channel}",outcome="{outcome}",tenant="{tenant}"}}'


def _marked(seconds: str) -> str:
    return f'dispatcher_mark_seconds_bucket{{le="{seconds}"}}'


def _rows(state: str) -> str:
    return f'dispatcher_table_rows{{state="{state}",table="delivery_state"}}'


def _connected(state: str) -> str:
    return f'dispatcher_database_connections{{state="{state}"}}'


CASES = (
    _missing.fires(15, (READY, "1x2 stale")),
    _missing.quiet(15, (READY, "0x30")),
    _none_ready.fires(5, (READY, "1 0x10"), (READY + '{instance="b"}', "0x10")),
    _none_ready.quiet(5, (READY, "0x10"), (READY + '{instance="b"}', "1x10")),
    _replica.fires(15, (READY, "1x20"), (READY + '{instance="b"}', "0x20")),
    # A replica that drains for some minutes.
    _replica.quiet(15, (READY, "1x20"), (READY + '{instance="b"}', "1x4 0x6 1x10")),
    _crashing.fires(10, (CRASHES, "0 1 2 3x10")),
    _crashing.quiet(10, (CRASHES, "0x5 1x20")),
    _fenced.fires(5, (FENCED, "0x2 1x10")),
    # Half an hour ago.
    _fenced.quiet(40, (FENCED, "0x2 1x60")),
    _differ.fires(20, (DIFFER, "0 1x30")),
    # A rollout.
    _differ.quiet(20, (DIFFER, "0 1x10 0x20")),
    _refused.fires(5, (RELOADS, "0x2 1x10")),
    _refused.quiet(5, (RELOADS, "1x10")),
    _api.fires(
        15,
        ('dispatcher_http_requests_total{status="200"}', "0+90x20"),
        ('dispatcher_http_requests_total{status="500"}', "0+10x20"),
    ),
    # Callers' own mistakes.
    _api.quiet(
        15,
        ('dispatcher_http_requests_total{status="200"}', "0+90x20"),
        ('dispatcher_http_requests_total{status="422"}', "0+90x20"),
        ('dispatcher_http_requests_total{status="503"}', "0+1x20"),
    ),
    _transactional.fires(10, (_age("transactional"), "0+30x20"), (PAUSED, "0x20")),
    # Many wait, and none for long.
    _transactional.quiet(
        10,
        (_age("transactional"), "30x20"),
        ('dispatcher_queue_depth{channel="sms",lane="transactional"}', "100000x20"),
    ),
    _transactional.quiet(10, (_age("transactional"), "0+30x20"), (PAUSED, "1x20")),
    _normal.fires(20, (_age("normal"), "0+60x30"), (PAUSED, "0x30")),
    _normal.quiet(20, (_age("normal"), "500x30")),
    _normal.quiet(20, (_age("bulk"), "0+60x30")),
    _normal.quiet(20, (_age("normal"), "0+60x30"), (PAUSED, "1x30")),
    _bulk.fires(120, (_age("bulk"), "0+60x150"), (_outcome("succeeded"), "0+60x30 1800x120")),
    # A large campaign at its rate.
    _bulk.quiet(120, (_age("bulk"), "0+60x150"), (_outcome("succeeded"), "0+60x150")),
    _bulk.quiet(120, (_age("bulk"), "0+60x150"), (PAUSED, "1x150")),
    _grows.fires(20, (HELD, "3x10 60x20"), (HELD + '{instance="b"}', "3x11 60x20")),
    # They are many, and do not become more.
    _grows.quiet(30, (HELD, "60x40")),
    _held.fires(300, (HELD, "0x20 1x300")),
    _held.quiet(300, (HELD, "0x20 1x200 0x100")),
    _fail.fires(30, (_outcome("failed"), "0+5x40"), (_outcome("succeeded"), "0+10x40")),
    _fail.quiet(30, (_outcome("failed"), "0+5x40"), (_outcome("succeeded"), "0+100x40")),
    # One of one in an hour.
    _fail.quiet(30, (_outcome("failed"), "0x20 1x30"), (_outcome("succeeded"), "0x40")),
    _tenant.fires(75, (_outcome("failed"), "0+5x100"), (_outcome("succeeded", "other"), "0+500x100")),
    _tenant.quiet(75, (_outcome("failed"), "0+5x100"), (_outcome("succeeded"), "0+5x100")),
    _retries.fires(40, (_outcome("again"), "0+60x50"), (_outcome("succeeded"), "0+30x50")),
    _retries.quiet(40, (_outcome("again"), "0+60x50"), (_outcome("succeeded"), "0+90x50")),
    _unreachable.fires(10, (CHANNEL_READY, "1 0x20"), (CHANNEL_READY + '{instance="b"}', "0x20")),
    # One replica reaches it.
    _unreachable.quiet(10, (CHANNEL_READY, "0x20"), (CHANNEL_READY + '{instance="b"}', "1x20")),
    _passed.fires(20, (PROVIDER_READY, "1 0x30")),
    _passed.quiet(20, (PROVIDER_READY, "1 0x5 1x30")),
    _disagrees.fires(20, (DISAGREES, "0 1x30")),
    _disagrees.quiet(20, (DISAGREES, "0x30")),
    _paused.fires(500, (PAUSED, "0 1x600")),
    _paused.quiet(500, (PAUSED, "0x100 1x450")),
    _poisoned.fires(5, (POISONED, "0x2 1x10")),
    _poisoned.quiet(5, (POISONED, "0x10"), ('dispatcher_recovered_total{how="requeued"}', "0+100x10")),
    _dead.fires(80, (DEAD, "0+1x100")),
    # Many old ones, a few new ones.
    _dead.quiet(80, (DEAD, "500x40 510x60")),
    _runs.fires(15, (RUNS, "0+60x20")),
    _runs.quiet(15, (RUNS, "90x20"), ('dispatcher_runs_oldest_due_seconds{lane="bulk"}', "900x20")),
    _schedules.fires(5, ('dispatcher_ticks_total{result="missed"}', "0x2 3x10")),
    _schedules.quiet(5, ('dispatcher_ticks_total{result="triggered"}', "0+3x10")),
    _jobs.fires(5, (JOBS, "0x2 1x10")),
    _jobs.quiet(5, (JOBS, "1x10")),
    _repaired.fires(5, (REPAIRS, "0x2 1x10")),
    _repaired.quiet(5, (REPAIRS, "0x10")),
    _away.fires(5, (AWAY, "0 0+30x20")),
    # A fail-over.
    _away.quiet(5, (AWAY, "0 15 25 0x20")),
    _marks.fires(20, (_marked("0.5"), "0+90x30"), (_marked("1.0"), "0+100x30"), (_marked("+Inf"), "0+100x30")),
    _marks.quiet(20, (_marked("0.025"), "0+99x30"), (_marked("0.05"), "0+100x30"), (_marked("+Inf"), "0+100x30")),
    _connections.fires(15, (_connected("active"), "40x20"), (_connected("idle"), "50x20"), (MAX, "100x20")),
    # Two replicas count the same connections.
    _connections.quiet(
        15,
        (_connected("active"), "60x20"),
        ('dispatcher_database_connections{instance="b",state="active"}', "60x20"),
        (MAX, "100x20"),
    ),
    _old.fires(45, (TRANSACTION, "0+60x60")),
    _old.quiet(45, (TRANSACTION, "0+60x28 0x30")),
    _vacuum.fires(90, (_rows("dead"), "3000000x100"), (_rows("live"), "1000000x100")),
    _vacuum.quiet(90, (_rows("dead"), "3000000x100"), (_rows("live"), "20000000x100")),
    _vacuum.quiet(90, (_rows("dead"), "30000x100"), (_rows("live"), "10x100")),
)

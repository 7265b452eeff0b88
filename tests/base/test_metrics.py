"""The metrics: the labels of tenants are bounded, sums stay right, and rare events begin at zero."""

from dispatcher.base.metrics import OTHER, PAIRS_MAX, Metrics, TenantLabels
from tests.support.metering import scraped


def outcomes(metrics: Metrics) -> dict[tuple[str, str], float]:
    """The counted deliveries by channel and tenant."""
    found: dict[tuple[str, str], float] = {}
    for family in scraped(metrics.registry):
        if family.name == "dispatcher_outcomes":
            for sample in family.samples:
                pair = sample.labels["channel"], sample.labels["tenant"]
                found[pair] = found.get(pair, 0) + sample.value
    return found


def test_a_pair_keeps_its_labels_and_a_late_one_shares_those_of_its_channel() -> None:
    labels = TenantLabels(pairs_max=2)
    assert [labels.of("sms", "a"), labels.of("email", "a"), labels.of("sms", "b")] == [
        ("sms", "a"),
        ("email", "a"),
        ("sms", OTHER),
    ]
    assert labels.of("sms", "a") == ("sms", "a")


def test_ten_thousand_tenants_have_a_bounded_number_of_series_and_lose_no_delivery() -> None:
    metrics = Metrics()
    for tenant in range(10_000):
        metrics.count_outcomes("sms" if tenant % 2 else "email", f"tenant-{tenant}", "succeeded", 3)
    found = outcomes(metrics)
    assert len(found) == PAIRS_MAX + 2
    assert sum(found.values()) == 30_000
    assert found["sms", OTHER] == 3 * (5_000 - PAIRS_MAX / 2)


def test_rare_events_have_their_series_before_they_happen() -> None:
    text = Metrics().registry.text().decode()
    for begun in (
        'dispatcher_recovered_total{how="held"} 0.0',
        'dispatcher_runs_total{kind="sequence",status="failed"} 0.0',
        'dispatcher_ticks_total{result="missed"} 0.0',
        'dispatcher_campaign_jobs_total{result="dead"} 0.0',
        'dispatcher_config_reloads_total{result="refused"} 0.0',
    ):
        assert begun in text

"""Pauses: which of them a delivery waits for."""

import pytest

from dispatcher.engine.rules.life import Claimed, Lane
from dispatcher.engine.rules.pauses import Inside, Pauses

HERE = ("acme", "shop")


def _item(
    channel: str = "sms", tenant: str = "acme", workspace: str = "shop", template: str | None = "welcome"
) -> Claimed:
    return Claimed(
        id=1,
        tenant_id=tenant,
        workspace_id=workspace,
        idempotency_key="k",
        channel=channel,
        lane=Lane.NORMAL,
        recipient="+4917012345",
        template="{}",
        variables="{}",
        options="{}",
        used=0,
        max_attempts=5,
        template_name=template,
        topic=None,
        run_id=7,
        campaign_run_id=None,
        sequence_id=None,
        watched=False,
        expired=False,
        dated=0,
        bound_to=None,
        passed_by=None,
        expires_at=0.0,
        traceparent=None,
        token=1,
    )


@pytest.mark.parametrize(
    ("inside", "pause"),
    [
        (Inside(whole=3), 3),
        (Inside(channels={"sms": 4}), 4),
        (Inside(templates={"welcome": 5}), 5),
        (Inside(3, {"sms": 4}, {"welcome": 5}), 3),
        (Inside(None, {"sms": 4}, {"welcome": 5}), 4),
        (Inside(channels={"email": 4}, templates={"other": 5}), None),
    ],
)
def test_a_delivery_waits_for_what_is_paused_in_its_workspace(inside: Inside, pause: int | None) -> None:
    pauses = Pauses(places={HERE: inside})
    assert pauses.parks_some()
    assert pauses.parks(_item()) == pause
    assert pauses.parks(_item(workspace="other")) is None
    assert pauses.parks(_item(tenant="other")) is None
    assert not pauses.stops("sms", [("capture",)])


def test_global_pauses_apply_beside_those_of_a_workspace() -> None:
    pauses = Pauses(templates={"welcome": 6}, places={HERE: Inside(channels={"email": 4})})
    assert pauses.parks(_item()) == 6
    assert pauses.parks(_item("email")) == 4
    assert pauses.parks(_item("email", template=None)) == 4
    assert pauses.parks(_item(template=None)) is None


def test_a_pause_of_a_tenant_or_a_run_counts_in_each_workspace() -> None:
    assert Pauses(tenants={"acme": 1}).parks(_item()) == 1
    assert Pauses(runs={"7": 2}).parks(_item()) == 2
    assert not Pauses().parks_some()

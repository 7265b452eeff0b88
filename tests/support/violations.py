"""A violation of each invariant, as `dispatcher check` should find it."""

# A violation of each invariant, under an id of its own. Nothing in the schema's constraints forbids them; what forbids
# them is how the functions and statements write.
DELIVERY = """INSERT INTO dispatcher.deliveries (id, idempotency_key, channel, recipient, template)
              VALUES ({id}, 'k{id}', 'sms', '+49', '{{"body": "x"}}');"""


def state(**columns: str) -> str:
    """A state row, pending unless something else is said."""
    row = {"id": "{id}", "run_at": "now()", "lane": "1", "channel": "'sms'", "ready": "false"} | columns
    return f"INSERT INTO dispatcher.delivery_state ({', '.join(row)}) VALUES ({', '.join(row.values())});"


def attempt(number: int, outcome: str, ended: str = "now()", due: str = "now()") -> str:
    """An earlier attempt."""
    return f"""INSERT INTO dispatcher.delivery_attempts (delivery_id, token, attempt, outcome, ended_at, next_at)
               VALUES ({{id}}, 1, {number}, '{outcome}', {ended}, {due});"""


def sent_again(provider: str) -> str:
    """An attempt of this provider that is unknown and was sent again under its key."""
    columns = "delivery_id, token, attempt, outcome, next_at, resent_by, provider"
    return f"""INSERT INTO dispatcher.delivery_attempts ({columns})
               VALUES ({{id}}, 1, 1, 'unknown', now(), 'key', '{provider}');"""


def claim(token: str, epoch: str, ids: str) -> str:
    """A claim."""
    return f"INSERT INTO dispatcher.claims (token, epoch, ids) VALUES ({token}, {epoch}, '{{{{{ids}}}}}');"


def run(**columns: str) -> str:
    """A run, pending unless something else is said."""
    named = ("tenant_id", "workspace_id", "workflow", "triggered_by")
    row = (
        {"id": "{id}", "workflow_id": "1", "version_id": "1", "input": "'{{}}'"} | dict.fromkeys(named, "'x'") | columns
    )
    return f"INSERT INTO dispatcher.runs ({', '.join(row)}) VALUES ({', '.join(row.values())});"


def campaign_run(**columns: str) -> str:
    """A run of a campaign with one job, not expanded unless something else is said of the run."""
    named = ("campaign_id", "tenant_id", "workspace_id", "campaign", "template_name", "created_by")
    row = {
        "id": "{id}",
        "channel": "'sms'",
        "template_version": "1",
        "variables": "'{{}}'",
        "reads": "'{{}}'",
        "scheduled_for": "now()",
        "frozen_at": "'0'",
        "lane": "2",
        "jobs": "1",
        "intended": "1",
        **dict.fromkeys(named, "'x'"),
        **columns,
    }
    return f"""INSERT INTO dispatcher.campaign_runs ({", ".join(row)})
               OVERRIDING SYSTEM VALUE VALUES ({", ".join(row.values())});"""


def job(**columns: str) -> str:
    """The job of such a run."""
    row = {
        "id": "{id}",
        "run_id": "{id}",
        "tenant_id": "'x'",
        "workspace_id": "'x'",
        "job_type": "'x'",
        "intended": "1",
        "contact_ids": "'{{1}}'",
        "first_id": "{id}",
        "last_id": "{id}",
        **columns,
    }
    return f"""INSERT INTO dispatcher.job_queue ({", ".join(row)})
               OVERRIDING SYSTEM VALUE VALUES ({", ".join(row.values())});"""


OF_A_NODE = """INSERT INTO dispatcher.deliveries (id, run_id, node, idempotency_key, channel, recipient, template)
               VALUES ({id}, {id}, 'mail', 'k{id}', 'sms', '+49', '{{"body": "x"}}');"""
HELD = {"held": "true", "marked": "true", "token": "5", "attempt": "1", "held_at": "now()"}
ENDED = {"marked": "true", "token": "5", "finished_at": "now()"}
EVIDENCE = "INSERT INTO dispatcher.delivery_evidence (delivery_id, token, verdict) VALUES ({id}, 9, 'accepted');"
TOKEN = "({id}::bigint << 24)"
VIOLATIONS = {
    "every_delivery_has_a_state": DELIVERY,
    "every_state_has_a_delivery": state(ready="true"),
    "terminal_ones_have_an_outcome": DELIVERY + state(status="'sent'", attempt="1", **ENDED),
    "claimed_ones_are_named_by_a_claim": DELIVERY + state(token=TOKEN),
    "nothing_is_stuck": DELIVERY + state(),
    "attempts_are_bounded": DELIVERY + state(status="'failed'", attempt="6", error="'no'", **ENDED),
    # The second is there, the first is not.
    "attempts_are_gapless": DELIVERY + state(ready="true", attempt="2") + attempt(2, "retry"),
    "unknown_attempts_were_sent_again_by_leave": DELIVERY + state(ready="true", attempt="1") + attempt(1, "unknown"),
    "unknown_attempts_stay_with_their_provider": DELIVERY
    + state(status="'sent'", marked="true", attempt="2", provider="'relay'", finished_at="now()", token=TOKEN)
    + sent_again("resend"),
    "what_may_have_gone_out_has_not_failed": DELIVERY
    + state(status="'skipped'", attempt="1", error="'expired'", finished_at="now()")
    + attempt(1, "unknown"),
    "backoff_is_respected": DELIVERY
    + state(ready="true", attempt="2")
    + attempt(1, "retry", due="now() + interval '1 minute'")
    + attempt(2, "retry", ended="now() + interval '1 second'"),
    "held_ones_are_explained": DELIVERY + state(error="''", **HELD),
    "one_token_has_one_owner": claim("{id}", "77", ""),
    "one_delivery_has_one_owner": DELIVERY + state(token=TOKEN) + claim(TOKEN, "{id}", "{id},{id}"),
    "no_evidence_is_thrown_away": DELIVERY + state(error="'unknown'", **HELD) + EVIDENCE,
    "open_runs_are_looked_at": run(status="'running'"),
    "ended_runs_send_nothing": run(status="'cancelled'", finished_at="now()")
    + OF_A_NODE
    + state(ready="true", wakes="{id}"),
    "logs_of_runs_are_gapless": run(state="'{{\"entries\": 1}}'")
    + "INSERT INTO dispatcher.run_entries (run_id, number, event) VALUES ({id}, 1, 'paused');",
    "failed_runs_are_explained": run(status="'failed'", finished_at="now()", dead="true"),
    "deliveries_of_nodes_have_runs": OF_A_NODE + state(ready="true", wakes="{id}"),
    "walks_are_of_runs": """INSERT INTO dispatcher.walks (id, epoch, run_ids) OVERRIDING SYSTEM VALUE
                            VALUES ({id}, 1, '{{{id}}}');""",
    "digests_are_led": """INSERT INTO dispatcher.digests (id, workflow_id, run_id, until, items_max, node, key)
                          OVERRIDING SYSTEM VALUE VALUES ({id}, 1, {id}, now(), 1, 'x', 'y');""",
    "dead_deliveries_are_listed": DELIVERY + state(status="'failed'", error="'no'", **ENDED),
    "counters_of_campaigns_equal_their_deliveries": campaign_run(
        status="'completed'", finished_at="now()", jobs_completed="1", expanded="1"
    )
    + job(status="'completed'", finished_at="now()", expanded_at="now()")
    + DELIVERY
    + state(status="'failed'", error="'no'", job_id="{id}", **ENDED),
    "runs_of_campaigns_equal_their_jobs": campaign_run(sent="1") + job(),
    "locked_jobs_have_owners": campaign_run()
    + job(status="'locked'", locked_by="3", locked_at="now() - interval '1 hour'")
    + """INSERT INTO dispatcher.instances (epoch, lease_seconds, pid, name, version, started_at)
         VALUES ({id}, 1, 1, 'z', '0', now() - interval '1 hour');""",
    "expanded_jobs_have_all_deliveries": campaign_run(expanded="1", status="'running'")
    + job(status="'locked'", expanded_at="now()"),
    "channels_have_one_provider": """
        INSERT INTO dispatcher.instances (epoch, lease_seconds, pid, name, version, channels, providers)
        VALUES (1, 1, 1, 'a', '0', '{{sms}}', '{{real}}'), ({id}, 1, 1, 'b', '0', '{{sms}}', '{{other}}');""",
}

"""The command registry: the command line and its help are made of it."""

from collections.abc import Mapping

from dispatcher.cli.root import Entry


def _of(feature: str, summary: str) -> Entry:
    return Entry(f"dispatcher.features.{feature}.commands", summary)


# A module is imported when its command is asked for. `--help` shows the summaries: all modules take ten times as long.
COMMANDS: Mapping[str, Entry] = {
    "serve": Entry("dispatcher.process.serve", "Run the dispatcher until it is told to stop."),
    "migrate": Entry("dispatcher.process.serve", "Bring the database's schema up to date."),
    "send": Entry("dispatcher.features.deliveries.send_command", "Send one delivery, or one for each line of a file."),
    "trigger": Entry("dispatcher.features.runs.trigger_command", "Start a run of a workflow."),
    "notify": Entry("dispatcher.features.rules.notify_command", "Tell an event to whom the rules say."),
    "demo": Entry("dispatcher.process.demo.command", "Send a few deliveries to look at."),
    "selftest": Entry(
        "dispatcher.process.selftest",
        "Kill replicas and cut their connections while they send, and check that nothing is lost and nothing sent "
        "twice.",
    ),
    "pause": _of("pauses", "Pause a channel, provider, tenant, template or workspace."),
    "resume": _of("pauses", "Resume a channel, provider, tenant, template or workspace."),
    "pauses": _of("pauses", "List pauses: where, since when, by whom and why."),
    "quarantine": Entry(
        "dispatcher.process.quarantine",
        "Hold everything that is due and was created before a time, until somebody says what became of it.",
    ),
    "check": Entry(
        "dispatcher.process.check",
        "Check every invariant on the whole database, and name what breaks it; exit with 1 when anything does.",
    ),
    "deliveries": _of("deliveries", "List and show deliveries; retry, cancel or move them."),
    "held": _of("held", "List, show and settle held deliveries."),
    "dead": _of("dead_letters", "List and show what has failed for good; replay or discard it."),
    "objects": _of("objects", "Store files that deliveries carry as attachments or inline images."),
    "templates": _of("templates", "Save, look at and publish templates."),
    "workflows": _of("workflows", "Save workflows, look at them, and let them take triggers."),
    "runs": _of("runs", "List, show and watch runs; pause, resume, cancel and retry them."),
    "suppressions": _of("suppressions", "List, add, remove, import and check addresses that get no messages."),
    "topics": Entry(
        "dispatcher.features.suppressions.topic_commands",
        "List, subscribe and unsubscribe addresses by topic.",
    ),
    "sequences": _of(
        "sequences",
        "Send messages over days: write and publish sequences, enrol contacts.",
    ),
    "contacts": _of("contacts", "Write, look at, import, export and erase contacts: the people of a workspace."),
    "campaigns": _of("campaigns", "Send one message to many contacts: plan, test, deploy, watch and check."),
    "schedules": _of(
        "schedules",
        "Trigger workflows by the clock: one run for each tick, whatever dies and however many replicas there are.",
    ),
    "rules": _of("rules", "Say who is told what about an event, by which channel."),
    "settings": _of("workspaces", "Show and save the phone region and the time zone of a workspace."),
    "quiet-hours": _of("quiet_hours", "Say when a workspace writes to nobody, in the time zones of recipients."),
    "caps": _of("caps", "Limit how many messages one recipient gets in a period."),
    "keys": _of("keys", "Make, list, rotate and revoke the keys of the HTTP API."),
    "cells": _of("cells", "Look at the cells of an installation, and place tenants in them."),
    "tenants": _of("cells.moving", "Move tenants from one cell to another."),
    "webhooks": _of("webhooks", "Send events of deliveries, runs and campaigns to endpoints, in signed messages."),
    "config": Entry("dispatcher.process.config", "Check the configuration, or show it."),
}

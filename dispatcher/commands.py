"""Every command there is: the registry that the command line and its help are made of."""

from collections.abc import Mapping

from dispatcher.cli.root import Entry

# A module is imported when its command is asked for. `--help` shows the summaries: all modules take ten times as long.
COMMANDS: Mapping[str, Entry] = {
    "serve": Entry("dispatcher.process.serve", "Run the dispatcher until it is told to stop."),
    "migrate": Entry("dispatcher.process.serve", "Bring the database's schema up to date."),
    "send": Entry("dispatcher.features.deliveries.send_command", "Send one delivery, or one for each line of a file."),
    "trigger": Entry("dispatcher.features.runs.trigger_command", "Start a run of a workflow."),
    "demo": Entry("dispatcher.process.demo.command", "Send a few deliveries to look at."),
    "selftest": Entry(
        "dispatcher.process.selftest",
        "Kill replicas and cut their connections while they send, and check that nothing is lost and nothing sent "
        "twice.",
    ),
    "pause": Entry("dispatcher.features.pauses.commands", "Stop a channel, provider, tenant, template or workspace."),
    "resume": Entry(
        "dispatcher.features.pauses.commands", "Let a channel, provider, tenant, template or workspace go on."
    ),
    "pauses": Entry("dispatcher.features.pauses.commands", "List what is paused: where, since when, by whom and why."),
    "quarantine": Entry(
        "dispatcher.process.quarantine",
        "Hold everything that is due and was created before a time, until somebody says what became of it.",
    ),
    "check": Entry(
        "dispatcher.process.check",
        "Check every invariant on the whole database, and name what breaks it; exit with 1 when anything does.",
    ),
    "deliveries": Entry(
        "dispatcher.features.deliveries.commands", "List and show deliveries; retry, cancel or move them."
    ),
    "held": Entry("dispatcher.features.held.commands", "List and show held deliveries, and say what became of them."),
    "dead": Entry(
        "dispatcher.features.dead_letters.commands", "List and show what has failed for good; replay or discard it."
    ),
    "objects": Entry(
        "dispatcher.features.objects.commands", "Keep files that deliveries carry as attachments or inline images."
    ),
    "templates": Entry("dispatcher.features.templates.commands", "Save, look at and publish templates."),
    "workflows": Entry(
        "dispatcher.features.workflows.commands", "Save workflows, look at them, and let them take triggers."
    ),
    "runs": Entry(
        "dispatcher.features.runs.commands", "List, show and watch runs; pause, resume, cancel and retry them."
    ),
    "suppressions": Entry(
        "dispatcher.features.suppressions.commands",
        "List, add, remove, import and check addresses that get nothing more.",
    ),
    "topics": Entry(
        "dispatcher.features.suppressions.topic_commands",
        "List what addresses said about topics; subscribe and unsubscribe them.",
    ),
    "contacts": Entry(
        "dispatcher.features.contacts.commands",
        "Write, look at, import, export and erase contacts: the people of a workspace.",
    ),
    "schedules": Entry(
        "dispatcher.features.schedules.commands",
        "Trigger workflows by the clock: one run for each tick, whatever dies and however many replicas there are.",
    ),
    "keys": Entry("dispatcher.features.keys.commands", "Make, list, rotate and revoke the keys of the HTTP API."),
    "webhooks": Entry(
        "dispatcher.features.webhooks.commands",
        "Let endpoints be told what happens to deliveries and runs, in signed messages.",
    ),
    "config": Entry("dispatcher.process.config", "Check the configuration, or show it."),
}

"""The `campaigns` commands: one message to many contacts."""

import math
from datetime import datetime
from typing import Annotated, Any
from uuid import uuid4

import msgspec
import typer
from msgspec import Raw, structs

from dispatcher.base.values.counts import counted
from dispatcher.base.values.durations import format_duration, instant
from dispatcher.cli.arguments import object_text, object_with_pairs
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.options import name_given, second
from dispatcher.cli.terminal.console import Output, plain
from dispatcher.cli.terminal.launcher import launcher
from dispatcher.cli.terminal.output import show_facts, show_list, tell
from dispatcher.features.campaigns import endpoints
from dispatcher.features.campaigns.models import (
    Campaign,
    DeployedCampaign,
    PlannedCampaign,
    SavedCampaign,
    TestedCampaign,
    WholeCampaign,
)
from dispatcher.features.campaigns.runs.commands import add_commands
from dispatcher.features.campaigns.runs.watch_command import POLL_SECONDS, Poll, follow
from dispatcher.plans.simulation.planned import PlannedMessage

_object = msgspec.json.Decoder(dict[str, Raw]).decode

app = group(help="Send one message to many contacts: plan, test, deploy, watch and check.")

Name = Annotated[str, typer.Argument(metavar="NAME", callback=name_given)]
Text = str | None


@command(app, "put", acts=True)
def put(  # noqa: PLR0913 - each is an option of the command line
    caller: Caller,
    name: Name,
    *,
    file: Annotated[Text, typer.Option(metavar="FILE|-", help="The whole campaign as a JSON object.")] = None,
    channel: Annotated[Text, typer.Option(help="The channel that it is sent by.")] = None,
    template: Annotated[Text, typer.Option(help="A stored template of the channel, published.")] = None,
    audience: Annotated[
        Text, typer.Option(metavar="JSON|@FILE", help='Who gets it, such as {"tags": ["vip"]}.')
    ] = None,
    var: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A variable: JSON, else text.")] = None,
    lane: Annotated[Text, typer.Option(help="transactional, normal or bulk; bulk without it.")] = None,
    topic: Annotated[Text, typer.Option(help="What one can unsubscribe from.")] = None,
    rate: Annotated[float | None, typer.Option(help="Messages a second; the channel's without it.")] = None,
    window: Annotated[
        Text, typer.Option(metavar="JSON", help='When it may send, such as {"from": "09:00", "to": "18:00"}.')
    ] = None,
) -> None:
    """Save a campaign from a file or options; options come before what the file says.

    If it has faults, all are listed, and nothing is saved. It cannot be changed while one of its runs is open.
    """
    body: dict[str, Any] = {} if file is None else dict(_object(object_text("--file", file)))
    for option, text in (("audience", audience), ("window", window)):
        if text is not None:
            field = "send_window" if option == "window" else option
            body[field] = Raw(object_text(f"--{option}", text).encode())
    if var:
        given = bytes(body["variables"]).decode() if "variables" in body else None
        body["variables"] = Raw(object_with_pairs("--file", given, "--var", var).encode())
    plainly = {"channel": channel, "template": template, "lane": lane, "topic": topic, "rate": rate}
    body |= {field: value for field, value in plainly.items() if value is not None}
    found: SavedCampaign = caller.ask(endpoints.put_campaign, name, body=body)
    done = {"created": "is saved", "changed": "is changed", "same": "says this already"}[found.answer]
    tell(caller, found, f"campaign {name} {done}: version {found.version}")
    caller.output.info(plain(f"see `{launcher()} campaigns plan {name}`"))


@command(app, "list", limit=100)
def list_(caller: Caller) -> None:
    """List the campaigns of a workspace by name."""
    columns = ("name", "channel", "template", "lane", "topic", "rate", "changed", "by")
    show_list(caller, caller.listed(endpoints.list_campaigns), columns, _cells, "There are no campaigns here.")


def _cells(row: Campaign) -> tuple[object, ...]:
    return row.name, row.channel, row.template, row.lane, row.topic, row.rate, second(row.updated_at), row.updated_by


@command(app, "show")
def show(caller: Caller, name: Name) -> None:
    """Show a campaign."""
    with caller.hinted(endpoints.list_campaigns, name):
        found: WholeCampaign = caller.ask(endpoints.get_campaign, name)
    window = "" if found.send_window is None else msgspec.json.encode(found.send_window).decode()
    show_facts(caller, "campaign", name, found, "name", send_window=window)


@command(app, "delete", acts=True)
def delete(caller: Caller, name: Name) -> None:
    """Delete a campaign that has no open run. Its runs stay."""
    tell(caller, caller.ask(endpoints.delete_campaign, name), f"campaign {name} is deleted")


@command(app, "plan")
def plan(caller: Caller, name: Name) -> None:
    """Show what a deployment would come to: how many contacts, who gets nothing, and the messages to ten of them.

    Nothing is written, and nothing sent.
    """
    with caller.hinted(endpoints.list_campaigns, name):
        found: PlannedCampaign = caller.ask(endpoints.plan_campaign, name)
    if caller.output.as_json:
        caller.output.record(found)
    else:
        _show_plan(caller.output, found)


def _show_plan(output: Output, found: PlannedCampaign) -> None:
    if found.refused is not None:
        output.text(plain(f"It would be refused: {found.refused}"))
    whom = f"the first {found.looked_at:,}" if found.looked_at < found.contacts else "whom"
    output.text(f"{counted(found.contacts, 'contact')}, of {whom} {found.recipients:,} would get a message")
    for one in found.skipped:
        output.text(plain(f"  {one.count:,} skipped: {one.reason}"))
    for lack in found.lacking:
        output.text(plain(f"  {lack.count:,} lack {lack.variable}: {', '.join(lack.examples)}"))
    if found.limit_per_second is None or found.seconds is None:
        output.text("No rate is set: it goes as fast as its channel.")
    else:
        took = format_duration(math.ceil(found.seconds))
        output.text(f"At {found.limit_per_second:g} a second sending takes {took}.")
    for message in found.messages:
        _show_message(output, message)


def _show_message(output: Output, message: PlannedMessage) -> None:
    length = f", {message.sms.words}" if message.sms else ""
    output.text(plain(f"\nto {message.recipient} ({message.locale}), template version {message.version}{length}"))
    if message.error is not None:
        output.text(plain(f"cannot be rendered: {message.error}"))
    for part, text in message.parts.items():
        output.content(f"--- {part} ---\n{text}")


@command(app, "test", acts=True)
def test(
    caller: Caller,
    name: Name,
    to: Annotated[list[str], typer.Option("--to", help="An address; each with its own --to, up to 100.")],
) -> None:
    """Send a campaign to given addresses. The run is in no total."""
    with caller.hinted(endpoints.list_campaigns, name):
        found: TestedCampaign = caller.ask(endpoints.test_campaign, name, body={"recipients": to})
    tell(caller, found, f"campaign run {found.run_id} tests {name}")
    caller.output.info(plain(f"see `{launcher()} campaigns watch {found.run_id}`"))


@command(app, "deploy", acts=True)
def deploy(
    caller: Caller,
    name: Name,
    *,
    at: Annotated[Text, typer.Option(metavar="TIME", help="When, in RFC 3339; at once without it.")] = None,
    key: Annotated[Text, typer.Option(help="Its idempotency key; random without it.")] = None,
    wait: Annotated[bool, typer.Option("--wait", help="Show its progress, and end as it does.")] = False,
    poll: Poll = POLL_SECONDS,
) -> None:
    """Deploy a campaign: its contacts and its template's version are frozen, and sending begins.

    A key that exists deploys nothing: the answer is its run. With --wait the exit code is 0 where the run is completed.
    """
    own_key = key if key is not None else f"cli-{uuid4()}"
    body = {"scheduled_for": None if at is None else _time(at), "idempotency_key": own_key}
    with caller.hinted(endpoints.list_campaigns, name):
        found: DeployedCampaign = caller.ask(endpoints.deploy_campaign, name, body=body)
    if key is None:
        # The random key is ours: the answer to a first attempt was lost.
        found = structs.replace(found, duplicate=False)
    if found.duplicate:
        words = f"duplicate: campaign run {found.run_id} holds the key {own_key}; nothing is deployed again"
    else:
        size = f"{counted(found.intended, 'contact')} in {counted(found.jobs, 'job')}"
        words = f"campaign run {found.run_id} is {found.status}: {size}"
    tell(caller, structs.asdict(found) | {"idempotency_key": own_key}, words)
    caller.output.flush()
    if wait:
        follow(caller, found.run_id, poll, None)
    else:
        caller.output.info(plain(f"see `{launcher()} campaigns watch {found.run_id}`"))


def _time(text: str) -> datetime:
    try:
        return instant(text)
    except ValueError as fault:
        raise typer.BadParameter(str(fault), param_hint="--at") from fault


add_commands(app)

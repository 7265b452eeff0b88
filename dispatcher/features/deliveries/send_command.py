"""The `send` command: a delivery from the command line, or one from each line of a file."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import msgspec
import typer
from msgspec import structs

from dispatcher.base.errors import Fault, InputError
from dispatcher.cli.arguments import pair, with_pairs
from dispatcher.cli.calls.caller import Caller
from dispatcher.cli.commands import command, group
from dispatcher.cli.failures import REFUSED
from dispatcher.cli.terminal.output import tell
from dispatcher.engine.rules.life import LANES
from dispatcher.features.deliveries.endpoints import send_lines
from dispatcher.features.deliveries.models import Written
from dispatcher.features.deliveries.send_file import outlook, send_file

# Why lines wait or are not sent. JSON has them all.
REASONS_SHOWN_MAX = 20

Text = str | None
_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


app = group()


@command(app, "send", spans=True)
def send(  # noqa: PLR0913 - each is an option of the command line
    caller: Caller,
    *,
    channel: Annotated[Text, typer.Option(help="The channel.")] = None,
    recipient: Annotated[Text, typer.Option("--to", help="The address; a social post has none.")] = None,
    body: Annotated[Text, typer.Option(help="The message, in Liquid.")] = None,
    part: Annotated[list[str] | None, typer.Option(metavar="NAME=LIQUID", help="A part, in Liquid.")] = None,
    template_name: Annotated[Text, typer.Option(help="The name of a stored template.")] = None,
    locale: Annotated[Text, typer.Option(help="With --template-name: the language.")] = None,
    var: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A variable: JSON, else text.")] = None,
    variables: Annotated[Text, typer.Option("--vars", metavar="JSON", help="Variables, as an object.")] = None,
    key: Annotated[Text, typer.Option(help="The unique key; random by default.")] = None,
    lane: Annotated[Text, typer.Option(help=f"One of {', '.join(LANES)}.")] = None,
    at: Annotated[Text, typer.Option(metavar="RFC3339", help="The time to send it; now by default.")] = None,
    expires_at: Annotated[Text, typer.Option(metavar="RFC3339", help="The time after which it is not sent.")] = None,
    max_attempts: Annotated[int | None, typer.Option(help="The number of attempts.")] = None,
    topic: Annotated[Text, typer.Option(help="The topic that recipients can unsubscribe from.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="A file of JSON lines, one delivery each; - is standard input.")
    ] = None,
) -> None:
    """Send one delivery, or one for each line of a file.

    A key that exists is not sent again. Fields of a line: idempotency_key, channel, recipient (or to), template (or
    body, or template_name and locale), variables, options, lane, scheduled_for, expires_at, max_attempts, topic,
    tenant_id, workspace_id.
    """
    given: dict[str, object] = {
        "channel": channel,
        "recipient": recipient,
        "body": body,
        "template": dict(pair("--part", text) for text in part) if part else None,
        "template_name": template_name,
        "locale": locale,
        "variables": _variables(variables, var or []),
        "idempotency_key": key,
        "lane": lane,
        "scheduled_for": at,
        "expires_at": expires_at,
        "max_attempts": max_attempts,
        "topic": topic,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if file is None:
        _send_one(caller, given | {"idempotency_key": key if key is not None else f"cli-{uuid4()}"})
        return
    if given or caller.given.tenant is not None or caller.given.workspace is not None:
        raise typer.BadParameter("cannot be combined with other options: the file has them", param_hint="--file")
    tally, reasons = send_file(caller, file)
    words = (f"{count:,} of them: {reason}" for reason, count in reasons.most_common(REASONS_SHOWN_MAX))
    tell(caller, tally.counts | {"reasons": reasons}, str(tally), *words)
    if tally.counts["refused"]:
        raise typer.Exit(REFUSED)


def _send_one(caller: Caller, given: dict[str, object]) -> None:
    try:
        line = msgspec.json.encode(given).decode()
    except UnicodeEncodeError as fault:
        raise InputError([Fault("command line", "is not UTF-8")]) from fault
    (answer,) = caller.ask(send_lines, body={"lines": [line]}).lines
    if answer.id is None:
        raise InputError(answer.faults)
    about = f"delivery {answer.id} with the key {answer.idempotency_key}"
    if answer.duplicate:
        words = f"duplicate: {about} is {answer.life}, and nothing is sent again"
    else:
        words = f"written: {about}; {outlook(answer, datetime.now(UTC))}"
    facts = structs.asdict(answer)
    del facts["faults"]
    tell(caller, Written(**facts), words)


def _variables(text: str | None, pairs: list[str]) -> dict[str, Any] | None:
    """Return the variables, with JSON unchanged."""
    if text is None and not pairs:
        return None
    try:
        values: dict[str, Any] = {} if text is None else dict(_object(text))
    except (ValueError, RecursionError) as fault:
        raise typer.BadParameter(f"not a JSON object: {fault}", param_hint="--vars") from fault
    return with_pairs(values, "--var", pairs)

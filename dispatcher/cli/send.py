"""The `send` command: one delivery from the command line, or one from each line of a file."""

from pathlib import Path
from typing import Annotated, Any
from uuid import uuid4

import msgspec
import typer

from dispatcher.cli.failures import REFUSED
from dispatcher.cli.given import pair, with_pairs
from dispatcher.cli.sending import send_file
from dispatcher.cli.session import Session
from dispatcher.domain.life import LANES
from dispatcher.doors.nouns import Refusal
from dispatcher.errors import Fault, InputError

Text = str | None
_object = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def send(  # noqa: PLR0913 - each is an option of the command line
    session: Session,
    *,
    channel: Annotated[Text, typer.Option(help="By which channel.")] = None,
    recipient: Annotated[Text, typer.Option("--to", help="To whom; a social post has nobody.")] = None,
    body: Annotated[Text, typer.Option(help="What it says, in Liquid.")] = None,
    part: Annotated[list[str] | None, typer.Option(metavar="NAME=LIQUID", help="A part by its name.")] = None,
    template_name: Annotated[Text, typer.Option(help="What it says: a stored template, by its name.")] = None,
    locale: Annotated[Text, typer.Option(help="With --template-name: in which language.")] = None,
    var: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="A variable: JSON, else text.")] = None,
    variables: Annotated[Text, typer.Option("--vars", metavar="JSON", help="Variables, as an object.")] = None,
    key: Annotated[Text, typer.Option(help="What makes it unique; without one a random key is made.")] = None,
    lane: Annotated[Text, typer.Option(help=f"One of {', '.join(LANES)}.")] = None,
    at: Annotated[Text, typer.Option(metavar="RFC3339", help="When; without it at once.")] = None,
    expires_at: Annotated[Text, typer.Option(metavar="RFC3339", help="After this it is not sent any more.")] = None,
    max_attempts: Annotated[int | None, typer.Option(help="How often it is tried.")] = None,
    topic: Annotated[Text, typer.Option(help="What it is about, where one can unsubscribe from that.")] = None,
    tenant: Annotated[Text, typer.Option(help="Whose it is.")] = None,
    workspace: Annotated[Text, typer.Option(help="Which workspace of theirs.")] = None,
    file: Annotated[
        Path | None, typer.Option(help="JSON lines instead, one delivery each; - is the standard input.")
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
        "tenant_id": tenant,
        "workspace_id": workspace,
    }
    given = {name: value for name, value in given.items() if value is not None}
    if file is None:
        _send_one(session, given | {"idempotency_key": key if key is not None else f"cli-{uuid4()}"})
    elif given:
        raise typer.BadParameter("stands for itself: what is sent is in the file", param_hint="--file")
    elif send_file(session, file).refused:
        raise typer.Exit(REFUSED)


def _send_one(session: Session, given: dict[str, object]) -> None:
    try:
        line = msgspec.json.encode(given)
    except UnicodeEncodeError as fault:
        raise InputError([Fault("command line", "is not UTF-8")]) from fault
    with session.doors() as doors:
        (answer,) = session.run(lambda: doors.deliveries.send([line]))
    if isinstance(answer, Refusal):
        raise InputError(answer.faults)
    if session.voice.as_json:
        session.voice.record(answer)
    elif answer.duplicate:
        session.voice.text(
            f"duplicate: delivery {answer.id} holds the key {answer.idempotency_key}; nothing is sent again"
        )
    else:
        session.voice.text(f"sent: delivery {answer.id} with the key {answer.idempotency_key}")


def _variables(text: str | None, pairs: list[str]) -> dict[str, Any] | None:
    """The variables; JSON is passed on as it was written."""
    if text is None and not pairs:
        return None
    try:
        values: dict[str, Any] = {} if text is None else dict(_object(text))
    except (ValueError, RecursionError) as fault:
        raise typer.BadParameter(f"not a JSON object: {fault}", param_hint="--vars") from fault
    return with_pairs(values, "--var", pairs)

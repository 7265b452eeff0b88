"""The plain way to send mail from asyncio: a cached template, EmailMessage, and aiosmtplib on kept connections."""

import asyncio
import time
from email.message import EmailMessage
from email.utils import formatdate, make_msgid

import aiosmtplib
from liquid import Environment

from bench import order
from bench.micro.templates import ORDER

_ENVIRONMENT = Environment()
_PARTS = {name: _ENVIRONMENT.from_string(text) for name, text in ORDER.items()}


def message(number: int) -> EmailMessage:
    """One order's mail."""
    rendered = {name: part.render(**order.variables(number)) for name, part in _PARTS.items()}
    mail = EmailMessage()
    mail["From"] = order.SENDER
    mail["To"] = f"ann{number}@d{number % 10}.example"
    mail["Subject"] = rendered["subject"]
    mail["Date"] = formatdate()
    mail["Message-ID"] = make_msgid(domain="shop.example")
    mail.set_content(rendered["text"])
    mail.add_alternative(rendered["html"], subtype="html")
    return mail


async def send(port: int, messages: int, connections: int) -> float:
    """Messages a second; building them is part of it."""
    clients = [
        aiosmtplib.SMTP(hostname="127.0.0.1", port=port, start_tls=False, timeout=60) for _ in range(connections)
    ]
    numbers = iter(range(messages))

    async def work(client: aiosmtplib.SMTP) -> None:
        async with client:
            for number in numbers:
                await client.send_message(message(number))

    began = time.perf_counter()
    async with asyncio.TaskGroup() as group:
        for client in clients:
            group.create_task(work(client))
    return messages / (time.perf_counter() - began)

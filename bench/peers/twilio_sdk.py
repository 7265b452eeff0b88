"""The plain way to send SMS from asyncio: the SDK and its own asynchronous client, with so many creates at a time."""

import asyncio
import time

from twilio.http.async_http_client import AsyncTwilioHttpClient
from twilio.rest import Client

from bench.twilio_server import ACCOUNT

FROM = "+15005550006"


async def send(url: str, messages: int, connections: int) -> tuple[float, float]:
    """Messages a second, and microseconds of CPU for each."""
    http = AsyncTwilioHttpClient()
    sdk = Client(ACCOUNT, "secret", http_client=http)
    sdk.api.base_url = url
    created = sdk.messages
    numbers = iter(range(messages))

    async def work() -> None:
        for number in numbers:
            body = f"Hi Ann, your order A-{number} ships on Monday. Track it: https://sms.example/A-{number}"
            await created.create_async(to=f"+49151{10_000_000 + number}", from_=FROM, body=body)

    began, cpu = time.perf_counter(), time.process_time()
    async with asyncio.TaskGroup() as group:
        for _ in range(connections):
            group.create_task(work())
    took = time.perf_counter() - began
    await http.close()
    return messages / took, (time.process_time() - cpu) / messages * 1e6

"""The plain way to send push messages from asyncio: a session of aiohttp, with so many posts at a time."""

import asyncio
import time

import aiohttp

from bench.fcm_server import PROJECT


async def send(url: str, messages: int, connections: int) -> tuple[float, float]:
    """Messages a second, and microseconds of CPU for each."""
    numbers = iter(range(messages))
    place = f"{url}/v1/projects/{PROJECT}/messages:send"
    headers = {"Authorization": "Bearer ya29.bench"}
    connector = aiohttp.TCPConnector(limit=connections)
    async with aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(15)) as session:

        async def work() -> None:
            for number in numbers:
                text = f"Hi Ann, your order A-{number} ships on Monday. Track it: https://sms.example/A-{number}"
                message = {"token": f"+49151{10_000_000 + number}", "notification": {"body": text}}
                async with session.post(place, json={"message": message}, headers=headers) as response:
                    response.raise_for_status()
                    await response.json()

        began, cpu = time.perf_counter(), time.process_time()
        async with asyncio.TaskGroup() as group:
            for _ in range(connections):
                group.create_task(work())
        took = time.perf_counter() - began
        return messages / took, (time.process_time() - cpu) / messages * 1e6

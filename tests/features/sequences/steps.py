"""Sequences for tests: saved and published through the store, contacts that are enrolled, and days that go by."""

import json
from datetime import timedelta
from typing import Any

from dispatcher.base.workspace import Workspace
from dispatcher.features.sequences import store
from dispatcher.features.sequences.rules import Settings, Step, compile_sequence
from dispatcher.plans.definition.definition import Known
from dispatcher.plans.plan import Plan
from tests.features.runs.stage import Stage

HERE = Workspace("default", "default")
KNOWN = Known(("chat", "email", "http", "push", "sms", "social", "voice", "whatsapp"))


def sms(order: int, days: int, hour: int | None = None, **more: Any) -> Step:
    """A text message."""
    given = {"name": f"s{order}", "channel": "sms", "content": "Hello {{ contact.name }}"} | more
    return Step(day_offset=days, step_order=order, send_hour=hour, **given)


def _earlier(value: Any, seconds: float) -> Any:
    """A state with all of its times earlier."""
    if isinstance(value, list):
        return [_earlier(one, seconds) for one in value]
    if not isinstance(value, dict):
        return value
    times = ("since", "until", "ended", "paced", "anchor")
    return {key: one - seconds if key in times else _earlier(one, seconds) for key, one in value.items()}


class Sequences:
    """Sequences on a stage."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.database = stage.database

    async def put(self, *steps: Step, name: str = "drip", **settings: Any) -> None:
        """Save a draft."""
        answer, _ = await store.put(self.database, HERE, name, Settings(**settings), steps, "ann")
        assert answer != "stale"

    async def publish(self, *steps: Step, name: str = "drip", **settings: Any) -> int:
        """Save a draft, if there are steps, and publish it."""
        if steps:
            await self.put(*steps, name=name, **settings)
        found = await store.find(self.database, HERE, name)
        assert found is not None
        plan = compile_sequence(name, found.settings, found.steps, KNOWN)
        assert isinstance(plan, Plan), plan
        answer, version = await store.publish(self.database, HERE, found, plan, "ann")
        assert answer in ("published", "same"), answer
        return version

    async def contact(self, key: str = "ann", **fields: Any) -> int:
        """A contact with a phone number, unless its addresses are given."""
        number = "+49170" + "".join(str(ord(one) % 10) for one in key)
        address = [{"kind": "phone", "address": number, "written": number}]
        said = {"name": key.title(), "addresses": address} | fields
        return int(
            await self.database.value(
                "SELECT contact_id FROM dispatcher.put_contact('default', 'default', $1, $2, 'upsert', NULL, 'ann')",
                key,
                json.dumps(said),
            )
        )

    async def enrol(self, contact: str = "ann", name: str = "drip") -> Any:
        """An enrolment."""
        return (await self.database.fetch("SELECT * FROM dispatcher.enrol($1, $2)", name, contact))[0]

    async def enrolled(self, *contacts: str, name: str = "drip") -> list[int]:
        """Contacts that are made and enrolled; the ids of their enrolments."""
        found = []
        for one in contacts or ("ann",):
            await self.contact(one)
            found.append((await self.enrol(one, name))["enrollment_id"])
        return found

    async def days(self, days: float) -> None:
        """Let days go by: everything that enrolments know of time moves into the past."""
        seconds = days * 86_400
        await self.database.fetch(
            """UPDATE dispatcher.runs SET anchor = anchor - $1::interval, created_at = created_at - $1::interval,
                      available_at = available_at - $1::interval, paused_at = paused_at - $1::interval""",
            timedelta(seconds=seconds),
        )
        await self.database.fetch(
            "UPDATE dispatcher.pauses SET since = since - $1::interval, ended_at = ended_at - $1::interval",
            timedelta(seconds=seconds),
        )
        for row in await self.database.fetch("SELECT id, state FROM dispatcher.runs"):
            state = json.dumps(_earlier(json.loads(row["state"]), seconds))
            await self.database.fetch("UPDATE dispatcher.runs SET state = $2 WHERE id = $1", row["id"], state)

    async def logs(self, run: int) -> list[tuple[str, str]]:
        """What its steps have sent: the step's name and the status."""
        rows = await self.database.fetch(
            """SELECT coalesce(t.name, l.step_id::text) AS name, l.status FROM dispatcher.sequence_step_logs l
                 LEFT JOIN dispatcher.sequence_steps t ON t.id = l.step_id WHERE l.enrollment_id = $1 ORDER BY l.id""",
            run,
        )
        return [(row["name"], row["status"]) for row in rows]

    async def enrollment(self, run: int) -> Any:
        """The enrolment as its view shows it."""
        asked = "SELECT * FROM dispatcher.sequence_enrollments WHERE id = $1"
        return (await self.database.fetch(asked, run))[0]

    async def status(self, run: int) -> str:
        """Its status."""
        return str((await self.enrollment(run))["status"])

    async def due_in_days(self, run: int) -> float:
        """In how many days its next step is due."""
        asked = "SELECT extract(epoch FROM available_at - now())::float8 FROM dispatcher.runs WHERE id = $1"
        return float(await self.database.value(asked, run)) / 86_400

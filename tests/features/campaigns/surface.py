"""What the tests of the surface of campaigns share: contacts, a template, a campaign, and a run that has ended."""

from typing import Any

from tests.support.caller import Answer, Caller


def write_template(admin: Caller, name: str, body: str, channel: str = "sms") -> None:
    """Save and publish a template."""
    parts = {"body": body} if channel == "sms" else {"subject": "Hello", "text": body}
    said = {"channel": channel, "locales": {"en": {"parts": parts}}, "default_locale": "en", "publish": True}
    assert admin.call("PUT", f"/templates/{name}", said).status in (200, 201)


def write_contacts(admin: Caller, mark: str, count: int, **fields: object) -> list[str]:
    """Write contacts that are tagged with a mark; each has a phone number and an attribute of its own."""
    base = sum(map(ord, mark)) * 1000
    made = [
        {
            "key": f"{mark}-{number}",
            "name": f"Name {number}",
            "tags": [mark],
            "attributes": {"number": number},
            "addresses": [{"kind": "phone", "address": f"+4917{base + number:08d}"}],
        }
        | fields
        for number in range(count)
    ]
    answer = admin.post("/contact-imports", {"contacts": made})
    assert (answer.status, answer.json["refused"]) == (200, [])
    return [str(one["key"]) for one in made]


def put(admin: Caller, name: str, tag: str | None = None, **fields: Any) -> Answer:
    """Save a campaign to whoever is tagged with its name."""
    said = {"channel": "sms", "template": name, "audience": {"tags": [name]}} | fields
    return admin.call("PUT", f"/campaigns/{name}", said, [] if tag is None else [("if-match", tag)])


def prepare(admin: Caller, name: str, count: int = 3, body: str = "Hello {{ contact.name }}", **fields: Any) -> None:
    """A campaign with its template and its contacts."""
    write_template(admin, name, body)
    write_contacts(admin, name, count)
    assert put(admin, name, **fields).status == 201


def deploy(admin: Caller, name: str, **fields: object) -> int:
    """Deploy a campaign; return its run."""
    answer = admin.post(f"/campaigns/{name}/deploy", fields)
    assert answer.status == 201, answer.body
    return int(answer.json["run_id"])


async def ended(admin: Caller, run_id: int) -> dict[str, Any]:
    """A run that has ended."""
    await admin.program.until(
        lambda: admin.get(f"/campaign-runs/{run_id}").json["finished_at"] is not None, f"campaign run {run_id} ends"
    )
    found: dict[str, Any] = admin.get(f"/campaign-runs/{run_id}").json
    return found

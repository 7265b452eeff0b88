"""The endpoints of quiet hours."""

from collections.abc import Iterator

from dispatcher.base.errors import Fault, did_you_mean
from dispatcher.features.quiet_hours import models, store
from dispatcher.features.quiet_hours.models import ALL
from dispatcher.features.quiet_hours.rules import never_opens
from dispatcher.http.endpoints import Call, Done, endpoint
from dispatcher.http.problems import NOT_FOUND, faulty, not_found
from dispatcher.http.roles import Right

_ONE = "/quiet-hours/{name}"
_EXAMPLE = {"quiet": [{"from": "21:00", "to": "08:00"}], "windows": []}
# They call programs, and write to nobody.
_NOT_FOR_PEOPLE = ("http", "webhook")


@endpoint("GET", "/quiet-hours", Right.RULES, answered=models.LISTED)
async def list_quiet_hours(call: Call) -> Done:
    """List the quiet hours of the workspace by channel."""
    return Done(models.ListedQuietHours(await store.listed(call.database, call.workspace)))


@endpoint("GET", _ONE, Right.RULES, answered=models.QUIET_HOURS, problems=(NOT_FOUND,))
async def get_quiet_hours(call: Call) -> Done:
    """Show the quiet hours of a channel, or those of `all` channels that have none of their own."""
    return Done(await _find(call))


async def _find(call: Call) -> models.QuietHours:
    name = call.named("quiet hours")
    found = await store.listed(call.database, call.workspace, name)
    if not found:
        raise not_found(f"channel {name} with quiet hours")
    return found[0]


@endpoint(
    "PUT",
    _ONE,
    Right.RULES,
    given=models.NewQuietHours,
    example=_EXAMPLE,
    answered=models.QUIET_HOURS,
    status=201,
    problems=(NOT_FOUND,),
)
async def put_quiet_hours(call: Call) -> Done:
    """Save the quiet hours of a channel, or those of `all` channels that have none of their own.

    What may not go now is moved to the end of the quiet hours, by the clocks of the recipient's time zone; what expires
    before is skipped. Deliveries of the lane `transactional` go at any time.
    """
    given: models.NewQuietHours = call.given
    name = call.named("quiet hours")
    faults = [*_channel_faults(call, name), *_faults(given)]
    if faults:
        raise faulty(faults)
    answer = await store.put(call.database, call.workspace, name, given, call.actor)
    return Done(await _find(call), 201 if answer == "created" else 200)


def _channel_faults(call: Call, name: str) -> Iterator[Fault]:
    known = sorted(set(call.served.config().channels) - set(_NOT_FOR_PEOPLE))
    if name not in (ALL, *known):
        hint = did_you_mean(name, known)
        yield Fault("path.name", f"unknown channel{hint}; there are {ALL}, {', '.join(known)}")


def _faults(given: models.NewQuietHours) -> Iterator[Fault]:
    fine = True
    for name in ("quiet", "windows"):
        for number, one in enumerate(getattr(given, name)):
            if one.opens == one.closes:
                fine = False
                yield Fault(
                    f"$.{name}[{number}].to",
                    f"is {one.closes}, as from: write 00:00 to 24:00 for the whole day, or another hour",
                )
    if not (given.quiet or given.windows):
        yield Fault("$", "has neither quiet nor windows: give one of them, or delete the quiet hours")
    elif fine and never_opens(store.hours_of(given.quiet, given.windows)):
        yield Fault("$", "never opens: leave a time of the week in which messages may go, or pause the channel")


@endpoint("DELETE", _ONE, Right.RULES, answered=models.DELETED, problems=(NOT_FOUND,))
async def delete_quiet_hours(call: Call) -> Done:
    """Delete the quiet hours of a channel, or those of `all`. What they have moved is due at its first time again."""
    name = call.named("quiet hours")
    if not await store.delete(call.database, call.workspace, name, call.actor):
        raise not_found(f"channel {name} with quiet hours")
    return Done(models.DeletedQuietHours(name, "deleted"))


ENDPOINTS = (list_quiet_hours, get_quiet_hours, put_quiet_hours, delete_quiet_hours)

"""The dispatcher's SQL functions on Django's own connection: what they do is part of its transaction.

There is nothing to do on commit. What is written is committed with everything else, and the dispatcher sees it then.
"""

import json
from collections.abc import Mapping
from typing import Any

from django.core.serializers.json import DjangoJSONEncoder
from django.db import DataError, connection, transaction

TRIGGER = """
    SELECT execution_id FROM dispatcher.trigger_workflow(
        workflow => %s, input => %s::jsonb, idempotency_key => %s, triggered_by => 'the shop')
"""
STATUS = "SELECT status FROM dispatcher.run_status(run_id => %s)"


class Refused(Exception):  # noqa: N818 - a name says what is the case
    """The dispatcher refuses a call; `faults` has each by its path."""

    def __init__(self, message: str, faults: Mapping[str, str]) -> None:
        super().__init__(message)
        self.faults = faults


def trigger(workflow: str, data: Mapping[str, Any], key: str) -> int:
    """Start a run of a workflow, once a key. Raises Refused; the transaction around it is as it was then."""
    try:
        # A savepoint: Postgres takes nothing more in a transaction in which something was refused.
        with transaction.atomic(), connection.cursor() as cursor:
            cursor.execute(TRIGGER, [workflow, json.dumps(data, cls=DjangoJSONEncoder), key])
            return int(cursor.fetchone()[0])
    except DataError as error:
        raise _refused(error) from error


def status(run: int) -> str | None:
    """Return the status of a run."""
    with connection.cursor() as cursor:
        cursor.execute(STATUS, [run])
        row = cursor.fetchone()
    return None if row is None else str(row[0])


def _refused(error: DataError) -> Refused:
    """A refusal has its faults in the DETAIL that psycopg's own error carries."""
    told = getattr(error.__cause__, "diag", None)
    faults = json.loads(getattr(told, "message_detail", None) or "[]")
    return Refused(getattr(told, "message_primary", None) or str(error), {one["path"]: one["words"] for one in faults})

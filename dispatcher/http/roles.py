"""Roles and rights of keys: two closed sets, and the matrix between them."""

from collections.abc import Mapping
from enum import StrEnum


class Right(StrEnum):
    """One right of a key."""

    WORKFLOWS = "workflows"
    RULES = "rules"
    TEMPLATES = "templates"
    SEQUENCES = "sequences"
    # Looking at runs and at what their logs say.
    LOGS = "logs"
    # Starting runs, and pausing, resuming, cancelling, replaying and signalling them.
    TRIGGERS = "triggers"
    HELD = "held"
    DEAD_LETTERS = "dead_letters"
    CAMPAIGNS = "campaigns"
    ENROLMENTS = "enrolments"
    DELIVERIES = "deliveries"
    OBJECTS = "objects"
    SUPPRESSIONS = "suppressions"
    CONTACTS = "contacts"
    PAUSES = "pauses"
    SCHEDULES = "schedules"
    KEYS = "keys"
    WEBHOOKS = "webhooks"
    AUDIT = "audit"


class Role(StrEnum):
    """The role of a key, as it is written in requests."""

    WORKFLOW_MANAGER = "workflowManager"
    TRIGGER_OPERATOR = "triggerOperator"
    SYSTEM_ADMIN = "systemAdmin"
    WORKER_SERVICE = "workerService"


# Rights of no other role are the system administrator's alone.
MATRIX: Mapping[Role, frozenset[Right]] = {
    Role.WORKFLOW_MANAGER: frozenset(
        {Right.WORKFLOWS, Right.LOGS, Right.RULES, Right.TEMPLATES, Right.SEQUENCES},
    ),
    # The life of a run is seen in its log.
    Role.TRIGGER_OPERATOR: frozenset(
        {Right.TRIGGERS, Right.LOGS, Right.HELD, Right.DEAD_LETTERS, Right.CAMPAIGNS, Right.ENROLMENTS},
    ),
    Role.SYSTEM_ADMIN: frozenset(Right),
    # Claims and results are in Postgres alone.
    Role.WORKER_SERVICE: frozenset(),
}


def may(role: Role, right: Right) -> bool:
    return right in MATRIX[role]


def roles_with(right: Right) -> tuple[Role, ...]:
    return tuple(role for role in Role if may(role, right))

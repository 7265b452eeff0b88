"""Roles: the matrix is the one that was agreed upon, and the rest is the administrator's alone."""

import pytest

from dispatcher.http.roles import MATRIX, Right, Role, may, roles_with

AGREED = {
    "workflowManager": {"workflows", "logs", "rules", "templates", "sequences"},
    "triggerOperator": {"triggers", "logs", "held", "dead_letters", "campaigns", "enrolments"},
    "systemAdmin": {right.value for right in Right},
    "workerService": set(),
}


def test_every_role_has_the_rights_that_were_agreed_upon() -> None:
    assert {role.value: {right.value for right in rights} for role, rights in MATRIX.items()} == AGREED


@pytest.mark.parametrize("right", Right)
def test_the_administrator_may_everything(right: Right) -> None:
    assert may(Role.SYSTEM_ADMIN, right)
    assert Role.SYSTEM_ADMIN in roles_with(right)


@pytest.mark.parametrize("right", [Right.KEYS, Right.PAUSES, Right.AUDIT, Right.DELIVERIES, Right.WEBHOOKS])
def test_the_rest_is_the_administrators_alone(right: Right) -> None:
    assert roles_with(right) == (Role.SYSTEM_ADMIN,)

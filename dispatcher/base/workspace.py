"""Workspaces: the part of the database that almost every row belongs to."""

from msgspec import Struct


class Workspace(Struct, frozen=True):
    """A workspace of a tenant."""

    tenant_id: str = "default"
    workspace_id: str = "default"

"""The schema's name: all SQL is written for `dispatcher`, and rendered for the schema that is used."""

import os
import re

NAME = "dispatcher"
SCHEMA = os.environ.get("DISPATCHER_SCHEMA", NAME)

_written = re.compile(rf"\b{NAME}\b(?=[.'\";,)\s]|$)")


def render(sql: str) -> str:
    """SQL as it is run: in the schema that is used. Roles, channels and settings keep their names."""
    return sql if SCHEMA == NAME else _written.sub(SCHEMA, sql)

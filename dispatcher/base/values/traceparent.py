"""The W3C traceparent: how a caller names its trace. The schema has the same form (vectors in the tests)."""

import re

# Version 00.
PATTERN = "^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$"
# A trace or a span of zeros is none. (Not every reader of JSON schemas knows look-aheads.)
ZEROS = "^00-(0{32}|[0-9a-f]{32}-0{16})-"
WORDS = "expected a W3C traceparent, such as 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

_form = re.compile(PATTERN.strip("^$")).fullmatch
_zeros = re.compile(ZEROS).match


def is_traceparent(text: str) -> bool:
    """Whether a text is a traceparent."""
    return _form(text) is not None and _zeros(text) is None

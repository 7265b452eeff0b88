"""Pages about what writes messages."""

"""The overview: what goes on now, and what ended in the last hour."""

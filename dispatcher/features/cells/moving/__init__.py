"""Planned hand-over: one tenant moves from one cell to another."""

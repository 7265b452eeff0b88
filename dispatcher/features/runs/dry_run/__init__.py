"""Dry runs: what a trigger would do, without doing any of it."""

"""Suppressions: addresses that get nothing more, or nothing more about a topic."""

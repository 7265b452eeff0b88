"""Audit: what was done by whom in a workspace."""

"""Audit: the actions in a workspace, each with its actor."""

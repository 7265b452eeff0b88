"""Workflows: versions of the definitions that runs walk through."""

"""Schedules: workflows that the clock triggers."""

"""Campaigns: one message to many contacts."""

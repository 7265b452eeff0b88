"""Campaigns: one message to many contacts, with a ledger of one row for each."""

"""Retries as a benchmark watches them: the documented schedule, the audit of each attempt, and two peers."""

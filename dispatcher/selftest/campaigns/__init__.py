"""The selftest of campaigns: a run for each class of providers, and an audit of its counters."""

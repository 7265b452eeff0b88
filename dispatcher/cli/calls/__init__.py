"""Calls of endpoints, in this process or over HTTP."""

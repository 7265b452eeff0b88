"""Signed webhook: posts a channel's messages to one URL of any service, in a JSON form of the operator's choice."""

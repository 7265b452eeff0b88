"""The operator console: pages over the endpoints' handlers, rendered on the server."""

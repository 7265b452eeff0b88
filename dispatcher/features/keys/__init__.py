"""Keys: access to the HTTP API of a workspace by roles."""

"""Keys: who may use the HTTP API of a workspace, and for what."""

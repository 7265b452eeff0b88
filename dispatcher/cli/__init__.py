"""The command line: the root, a session, shared options, and the generic caller of every endpoint."""

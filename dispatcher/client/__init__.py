"""The client: what an application imports to send, to trigger workflows, and to see what became of that."""

"""The doors of a server: everything over HTTP, with a key that opens one workspace."""

"""Settings of workspaces: the region of phone numbers and the time zone."""

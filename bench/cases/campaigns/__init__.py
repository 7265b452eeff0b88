"""What campaigns take: a million contacts deployed, expanded, sent and counted."""

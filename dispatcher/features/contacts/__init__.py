"""Contacts: the people of a workspace, by the keys that the application has chosen."""

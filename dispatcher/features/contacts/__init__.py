"""Contacts: the persons of a workspace, by keys that the application chooses."""

"""Mastodon: posts statuses with an account's access token, under keys that the instance keeps for an hour at most."""

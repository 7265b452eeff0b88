"""Peers: other programs for similar work, measured beside ours in the same run on the same server."""

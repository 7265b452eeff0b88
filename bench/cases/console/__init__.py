"""The operator console under much data, and beside much work."""

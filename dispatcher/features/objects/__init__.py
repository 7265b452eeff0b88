"""Objects: files that messages carry, each under a name with one immutable content."""

"""The pages: one module each, found by itself; a folder for each group of the navigation."""

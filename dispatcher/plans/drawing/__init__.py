"""Plans as drawings."""

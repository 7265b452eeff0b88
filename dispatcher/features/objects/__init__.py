"""Objects: files that messages carry, under names that mean one content for ever."""

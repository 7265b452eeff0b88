"""The doors to a database: everything as the store has it."""

"""Health of the database: its invariants, its vital signs, and which server a connection leads to."""

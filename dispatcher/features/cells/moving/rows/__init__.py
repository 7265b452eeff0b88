"""The rows of a tenant: which tables have some, how they are copied, and how both sides are compared."""

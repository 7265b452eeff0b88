"""Plans: what a workflow's definition becomes, and how a run walks through it."""

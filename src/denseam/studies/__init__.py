"""Studies: their description, the engine that trains them, their records, and executors."""

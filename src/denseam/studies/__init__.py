"""Studies: the one description, its documents, the engine that trains it, records, executors."""

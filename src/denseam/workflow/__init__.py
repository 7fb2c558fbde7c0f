"""From data to a trained memory: goal, plan, tune, train, recall, compare."""

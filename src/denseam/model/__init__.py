"""The model: Lagrangians, the tied update and its energies, checkpoints, random streams."""

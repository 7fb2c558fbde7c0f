"""The Dense Associative Memory: Lagrangians, the tied update and its energies, checkpoints, randomness."""

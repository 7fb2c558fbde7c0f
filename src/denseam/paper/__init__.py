"""The paper's figures and studies of our own: rows of data, claims with a test each, a gallery."""

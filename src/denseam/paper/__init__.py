"""The paper's figures and our own studies: rows of data, claims with tests, a gallery."""

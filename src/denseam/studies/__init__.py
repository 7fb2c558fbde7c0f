"""What is trained, and what is kept of it: descriptions of studies, engine, records, executors."""

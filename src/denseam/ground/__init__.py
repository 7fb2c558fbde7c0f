"""What every room stands on: errors and the checks of what is read, files, and what objects can show."""

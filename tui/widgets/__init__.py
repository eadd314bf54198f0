"""The interface's widgets, one a file."""

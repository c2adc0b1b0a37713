"""The report of a run: one HTML page that people open."""

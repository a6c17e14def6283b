"""The command line: parses, prints; no mathematics."""

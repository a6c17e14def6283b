"""The command line: parses, prints; no mathematics. Needs typer and rich: ``pip install 'dyncrp[cli]'``."""

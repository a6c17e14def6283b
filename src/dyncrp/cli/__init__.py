"""The command line: parsing and printing only. Needs typer and rich: ``pip install 'dyncrp[cli]'``."""

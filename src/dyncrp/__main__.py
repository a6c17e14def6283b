"""``dyncrp`` and ``python -m dyncrp``: the command line, or what to install if its extra is missing."""

import sys


def main() -> None:
    """Run the command line."""
    try:
        from dyncrp.cli.app import app
    except ModuleNotFoundError as missing:
        if missing.name not in ("matplotlib", "rich", "typer"):
            raise
        sys.exit(f"dyncrp: the command line needs {missing.name}: pip install 'dyncrp[cli]', or '.[cli]' in a clone")
    app()


if __name__ == "__main__":
    main()

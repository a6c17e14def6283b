"""The version: the build, the package, the command line and model files read it here."""

__version__ = "0.1.0"

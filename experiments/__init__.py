"""The paper's synthetic experiments, one file a figure: ``python -m experiments.NAME [--quick]``."""

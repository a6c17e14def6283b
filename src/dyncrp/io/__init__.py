"""Files: models, and tabular data read and written a chunk at a time. Nothing here knows an estimator."""

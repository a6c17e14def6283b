"""Jobs: a run over a file that can be resumed after any stop, its checkpoint and timeline, and the demonstrations."""

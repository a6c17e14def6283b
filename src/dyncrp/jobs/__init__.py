"""Jobs: a run over a file that survives any stop, its checkpoint and its timeline; and the demonstrations."""

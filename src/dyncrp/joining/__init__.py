"""Tables joined into clusters, from their statistics alone."""

"""Views of a model for people: clusters, descriptions, explanations and examples."""

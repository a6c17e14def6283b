"""Views of a model for people: groups of tables, descriptions, explanations and examples."""

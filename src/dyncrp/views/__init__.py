"""What people look at: groups of tables, descriptions and explanations."""

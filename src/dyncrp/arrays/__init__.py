"""The base of all other modules: checks of numbers, times and arrays, and the types of rows."""

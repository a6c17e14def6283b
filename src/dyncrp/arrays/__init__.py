"""The base of all other modules: checks of numbers, times and arrays, and sparse rows of counts."""

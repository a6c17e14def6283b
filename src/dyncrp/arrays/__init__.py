"""What all others are built on: checks of numbers, times and arrays, and sparse rows of counts."""

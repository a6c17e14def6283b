"""Arrays, data frames and documents become rows of numbers here, and labels of rows become constraints."""

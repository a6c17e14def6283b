"""Whatever people have becomes rows of numbers: arrays, data frames, documents; and what they know of rows."""

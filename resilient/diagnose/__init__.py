"""Pure: evidence in, diagnosis out."""

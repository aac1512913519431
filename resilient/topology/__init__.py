"""Pure: text → records → graph → paths, differences, suspects."""

"""Whole runs of resilient-run: real workers, real faults, and what is left of them."""

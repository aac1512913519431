"""Reads a run directory and tells a person, or a machine, what happened."""

"""I/O in: one source per file. Reads the world and returns records; never decides."""

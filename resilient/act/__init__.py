"""I/O out: one effect per file. Does what it is told; never decides."""

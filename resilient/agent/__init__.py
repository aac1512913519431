"""The node's process: keeper, agent loop, attempts, and the seam to torch."""

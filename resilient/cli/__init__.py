"""The two commands: `resilient-run` (replaces torchrun) and `resilient` (looks at what happened)."""

"""The commands: `resilient-run` replaces torchrun, `resilient` looks at what happened."""

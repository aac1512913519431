"""Tests here run in a laboratory of namespaces."""

from netlab.fixtures import lab, new_lab

__all__ = ["lab", "new_lab"]

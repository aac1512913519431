"""Nouns: frozen records and errors. Nothing here does I/O or decides anything."""

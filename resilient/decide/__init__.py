"""Pure: one rule or state machine per file. Time and chance are arguments."""

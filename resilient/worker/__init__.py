"""Inside the training process. Standard library and torch only: we are guests there."""

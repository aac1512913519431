"""Jobs on several nodes, in the laboratory of `netlab`."""

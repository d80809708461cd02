"""Looking at what was trained: a policy driven under commands, filmed or in a window."""

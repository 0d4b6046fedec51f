"""Speed: what costs what, measured side by side in one process on one thread."""

"""Records of many kinds, and what fits to them know of themselves."""

"""Fixed points: where a search starts, how it refines, what it found, and whether it missed some."""

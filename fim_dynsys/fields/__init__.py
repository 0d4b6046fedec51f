"""Vector fields of every kind, families of them, and the dictionary they are written in."""

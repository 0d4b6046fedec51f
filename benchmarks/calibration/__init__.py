"""Error bars of inferred fields: how often they hold the truth, and how wide they are for it."""

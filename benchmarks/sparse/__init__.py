"""Few observations: short, ragged, irregular, at several rates, with missing coordinates."""

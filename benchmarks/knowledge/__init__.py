"""One true fact known beforehand: what it is worth, on the development systems."""

"""One true fact told beforehand: what it is worth, on the development systems."""

"""Known equations fitted to textbook problems, beside scipy."""

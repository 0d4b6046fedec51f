"""The choice among candidate fields, learned from contexts of known systems."""

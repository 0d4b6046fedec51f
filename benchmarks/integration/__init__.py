"""Paths of true fields, as fits integrate them and as fits are judged."""

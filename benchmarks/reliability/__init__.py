"""Attacks on the package from outside, repeated with counts: is anything lost, let in, or left unsaid?"""

"""Swing a pole up and balance it."""

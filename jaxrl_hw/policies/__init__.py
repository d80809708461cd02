"""Trained policies away from their runs: one portable form, and the files made from it."""

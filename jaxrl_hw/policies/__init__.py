"""Trained policies as files: one portable form, and the formats that are made from it."""

"""Runs on disk: which there are, what happened to them, and how one moves to another machine.

Nothing here imports jax, so that a listing takes a moment.
"""

"""The bodies of the commands."""

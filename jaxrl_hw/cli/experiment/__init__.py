"""An experiment: runs of robots, algorithms, settings and seeds, one after the other.

`numbered_yaml` reads, `manifest` checks, `cells` trains, `command` does all of it and reports.
"""

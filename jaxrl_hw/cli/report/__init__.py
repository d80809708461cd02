"""The report of a run: what its files say, drawn, tabulated and compared with other runs.

`run_record` reads, `time_spent`, `summary` and `comparison` compute, `figures` draws, `motion`
drives the policy, `page` writes.
"""

"""`distify bench`: what a step is made of on each number of ranks, and what it would be on others.

units      bandwidths and latencies, as people write them
timings    what the runs wrote down, as figures of a step
measuring  the runs
model      what a step is made of on N ranks, from one process and one collective
saying     what limits, what it would take, what is predicted
reporting  the table and the JSON
drawing    the picture
"""

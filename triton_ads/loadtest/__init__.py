"""Load: who asks what and when, what comes of it, and the report.

traffic.py      users and candidates of a request
requests.py     requests as bytes, their deadline stamped when they are due
load.py         closed and open loops: schedules, outcomes, a generator as a process of its own
generator.py    that process
search.py       which rate is tried next: rising, then closer to the highest that meets the deadline
judgement.py    whether an outcome meets the deadline, and what went wrong, by cause
statistics.py   Triton's own counts and times
usage.py        processor time and memory of a server's processes
run.py          one server: warm-up, rising rates, the rated load held
report.py       the document of a run, as JSON
page.py         the same as one HTML file
compare.py      two documents beside each other
"""

"""What a GPU server is made of, and how it is: one JSON document from sysfs, procfs and the vendors' tools.

Standard library only, Python 3.9 or newer. `report.build` is the whole of it; `cli` writes what it returns.
"""

# Of the document: raised when a field changes its meaning or goes away.
SCHEMA = 1

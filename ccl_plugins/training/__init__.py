"""Training: the step, Lightning's loops around it, the tables of conditions and the order of samples.

Lightning is imported when a run starts, and nothing here, so that ``ccl train --help`` waits for neither.
"""

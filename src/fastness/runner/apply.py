"""
Bringing what a command changed in its copy into the real project: all of it, or none.
"""

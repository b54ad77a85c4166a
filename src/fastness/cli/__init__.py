"""
The command line.  ``main.main`` is its entry point; everything else is imported when a command needs it.
"""

"""
The wire protocol, version 1, without I/O.

General layout: ``frames`` cuts a byte stream into frames and is the only module that an engine process imports;
``messages`` gives each frame's head a type; ``values`` is the tagged JSON in which plain data crosses;
``session`` says which message may come when.  Nothing here opens, reads or writes anything.
"""

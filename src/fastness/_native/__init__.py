"""
The processes that make native guests: a launcher, a mother that mounts, a zygote that forks, a guest's first steps.

All of them run in one interpreter that was started with an environment built from nothing.  Nothing here is imported
by the caller's process but :mod:`fastness._native.datagrams`.
"""

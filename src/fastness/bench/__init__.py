"""
What this machine does: runs side by side with bare processes, in the same minutes.

Absolute times say more about a machine than about Fastness, so each promise is a ratio to a bare process measured in
the same run, or a time that a person would notice.  ``SPECIFICATION.md`` names the promises.
"""

"""
The host's side of container engines: where one is, a small client of its API under absolute deadlines, and its images.

Knows no policy and no guest; ``backends.container`` makes a tier of it.
"""

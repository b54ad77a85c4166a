"""
Attacks on what containers have and other guests do not: an image, and a first process that watches them.
"""

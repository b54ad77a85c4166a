"""
The shipped attacks: a folder for each family, a file for each attack.
"""

"""
What counts as a vulnerability, sentence by sentence, each with the attacks behind it.
"""

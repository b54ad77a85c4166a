"""
The broker: the one gate between what a guest asks for and what an adapter does.
"""

"""Committed offsets: the compact table that holds them, and who may commit, fetch, delete and expire them."""

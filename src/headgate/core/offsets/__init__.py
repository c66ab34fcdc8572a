"""Committed offsets: the compact table that holds them, and their commit, fetch, deletion and expiry."""

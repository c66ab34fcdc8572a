"""Paused partitions of groups (KIP-1249): state, commands, and the rules for their offsets."""

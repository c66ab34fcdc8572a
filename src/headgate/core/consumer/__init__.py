"""Consumer groups of the new protocol (KIP-848) with assignment epochs (KIP-1251)."""

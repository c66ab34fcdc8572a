"""Record batches, segments, recovery, over a small file-system port. Bytes only."""

"""The topic catalogue and the partitions' logs."""

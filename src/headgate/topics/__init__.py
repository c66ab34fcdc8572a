"""The topic catalogue and the logs of the partitions."""

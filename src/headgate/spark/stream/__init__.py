"""A stream that is a consumer group: `spark.readStream.format("headgate")`.

The reader in Spark's driver is the only member of a consumer group (KIP-848). The group's committed offsets
show what Spark has finished; partitions can be paused, and their offsets set, while the stream runs.
"""

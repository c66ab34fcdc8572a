"""Take over the directory of a stopped Apache Kafka broker into a new data directory.

    metadata_records.py   the records of Kafka's metadata log, from their bytes
    cluster_metadata.py   topics, settings and producer ids, as the metadata log states them
    source.py             the log directories of the broker: locks, small files, partitions
    plan.py               what is taken over, decided before anything is written
    segments.py           checks and copies the segments of a partition
    target.py             the new data directory: catalogue, logs, and the marker of an unfinished import
    importing.py          the whole import

The formats of segments and of coordinators' records are Kafka's, so the logs are copied as they are. What
Kafka keeps in its metadata log goes into the catalogue.
"""

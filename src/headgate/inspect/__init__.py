"""Read-only description and checks of a data directory.

    reading.py       the batches of a log file, and the search for the next batch after damage
    directory.py     a data directory: the catalogue, the partitions' directories, the marker of a clean stop
    partition.py     one partition's directory: segments, checkpoint, start and end of the log
    contents.py      the topics, and the batches of a log from an offset on
    explain.py       batches and records in words and as JSON values
    runs.py          incomplete commits over several batches
    findings.py      the findings of a check, and the counts of what it checked
    verify.py        checks the whole directory
    verify_log.py, verify_segment.py, verify_index.py, verify_records.py   check its parts
    verify_state.py  checks the checkpoint of a coordinator's log

Rules: Files are opened for reading only. The directory can belong to a stopped or a running server, or to
Apache Kafka. The only error for any bytes is OSError, for a file that cannot be read.
"""

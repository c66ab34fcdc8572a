"""What a data directory holds, explained and checked, without changing a byte of it.

    reading.py       a log file from batch to batch, and past what is no batch
    directory.py     what there is: the catalogue, the partitions' directories, how the last life ended
    partition.py     one partition's directory: segments, checkpoint, where the log starts and ends
    contents.py      the topics at a glance, and a log batch by batch from an offset on
    explain.py       batches and records in words and as JSON values
    runs.py          which commits over several batches broke off
    findings.py      what a check found, and how much it looked at
    verify.py        the whole directory, file by file
    verify_log.py, verify_segment.py, verify_index.py, verify_records.py   its parts, from large to small
    verify_state.py  the checkpoint of a coordinator's log

Rules: files are opened for reading only; the directory may be a stopped server's or a running one's, or
Apache Kafka's; whatever the bytes, nothing raises but OSError for a file that cannot be read.
"""

"""Other implementations of the batch format, to compare with."""

import warnings

with warnings.catch_warnings():
    # kafka-python reads its schemas in a way that Python 3.11 deprecates: its own affair.
    warnings.simplefilter("ignore", DeprecationWarning)
    from kafka.record import MemoryRecords
    from kafka.record.default_records import DefaultRecordBatchBuilder

from kio.records.readers import read_batch as read_batch_by_kio

__all__ = ["DefaultRecordBatchBuilder", "MemoryRecords", "read_batch_by_kio"]

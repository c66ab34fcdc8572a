"""Record batches, segments and recovery on a small file-system port. This room knows bytes only.

    batch.py        records <-> batches (`Record`, `encode_batch`, `iterate_records`, ...)
    log.py          one partition: append, read, sync, recover, retain, truncate, delete (`Log`)
    compaction.py   keep the last record of each key: `compact`, in slices; `backlog.py` measures what is due
    filesystem.py   the port, the disk, and the implementation in memory with faults and power cuts

Their parts: `header.py` and `compression.py` of batch; `segment.py`, `segment_file.py`, `segment_indexes.py`,
`index.py`, `recovery.py` with `segment_scan.py` and `damage.py`, `checkpoint.py` and `time_search.py` of log;
`last_records.py`, `key_table.py`, `rewriting.py` and `swap.py` of compaction; `memory_filesystem.py` of
filesystem.

Notes for callers:

* `Log.open(files, directory, settings, *, clean, on_truncated=None)`;
  `read(offset, max_bytes, *, minimum_one=True, up_to=None)`;
  `apply_retention(now_ms, retention_ms, retention_bytes, up_to=None)` returns the number of deleted segments.
  Times are in ms, paths are `Path`.
* `append(data, headers)` takes headers with their final offsets: place the bytes and read the headers again,
  or use `header._replace(base_offset=..., leader_epoch=...)`.
* A sync is `request = log.begin_sync()`, then `request.run()` in any thread (it raises OSError, and the
  request keeps it), then always `log.complete_sync(request)` in the owner's thread: all is durable unless
  that raises.
* `LogFailed` is an OSError; `InvalidBatch` is a `CorruptBatch` whose bytes are complete but break a rule.
* Header keys are bytes. Log start offset and recovery point are stored in the partition's own directory.
* A durable log keeps `sync_on_roll`. A log with `flush` off turns it off in its `LogSettings`; it then needs
  a background sync when `has_unsynced_closed_segments`.
"""

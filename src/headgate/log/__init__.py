"""Record batches, segments, recovery, over a small file-system port. Bytes only.

    batch.py        records <-> batches (`Record`, `encode_batch`, `iterate_records`, `check_batches`, ...)
    log.py          one partition: append, read, sync, recover, retain, truncate, delete (`Log`)
    compaction.py   the last record of each key stays: `compact`, in slices; `backlog.py` says what waits
    filesystem.py   the port, the disk, and the twin in memory that fails, tears and loses

Beneath them: `header.py` and `compression.py` under batch; `segment.py`, `index.py`, `recovery.py`,
`checkpoint.py` and `time_search.py` under log; `last_records.py`, `key_table.py`, `rewriting.py` and
`swap.py` under compaction; `memory_filesystem.py` under filesystem.

Worth knowing when coding against it:

* `Log.open(files, directory, settings, *, clean, recovery_point=0, on_truncated=None)`; `read(offset,
  max_bytes, *, minimum_one=True, up_to=None)`; `apply_retention(now_ms, retention_ms, retention_bytes,
  up_to=None)` returns how many segments went; times are in ms, paths are `Path`.
* `append(data, headers)` takes headers as placed. `check_batches` gives them as the producer sent them: place
  the bytes and read the headers again, or `header._replace(base_offset=..., leader_epoch=...)`.
* A sync is `request = log.begin_sync()`, `request.run()` in any thread (it raises OSError, and the request
  keeps it), then always `log.complete_sync(request)` on the owner's: all is durable unless that raises.
* `LogFailed` is an OSError; `InvalidBatch` is a `CorruptBatch` whose bytes are whole but break a rule.
* Header keys are bytes. Log start offset and recovery point are kept in the partition's own directory.
* A durable log keeps `sync_on_roll`; one with `flush` off turns it off in its `LogSettings`, and then wants a
  background sync when `has_unsynced_closed_segments`.
"""

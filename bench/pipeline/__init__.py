"""The Spark pipeline under measurement, beside plain PySpark, Spark's own Kafka source, and DuckDB.

`python -m bench.pipeline` (`make bench-spark`) runs all of it.

* `commits`: the coordinator's log through the decoder, Spark, the landing, and `offsets_current`.
* `many`: topics of thousands of partitions, from files and over the wire.
* `streams`: a stream that is a consumer group, beside Spark's own Kafka source on the same topic.
"""

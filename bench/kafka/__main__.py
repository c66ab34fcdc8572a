"""`python -m bench.kafka`, run by `make kafka`: download Apache Kafka, and Spark's own source for it."""

from bench.kafka.classes import archive_classes
from bench.kafka.fetch import fetch
from bench.kafka.spark_source import fetch_spark_source

print(fetch())
print(archive_classes())
print(fetch_spark_source())

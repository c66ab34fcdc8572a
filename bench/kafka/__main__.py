"""`python -m bench.kafka`, run by `make kafka`: download Apache Kafka."""

from bench.kafka.fetch import fetch

print(fetch())

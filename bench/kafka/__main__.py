"""`python -m bench.kafka`, which is `make kafka`: fetches Apache Kafka."""

from bench.kafka.fetch import fetch

print(fetch())

"""Apache Kafka as a peer: fetched from Maven Central, run as one node on this machine."""

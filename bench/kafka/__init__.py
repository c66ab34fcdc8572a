"""Apache Kafka as a peer: downloaded from Maven Central, run as one node on this machine."""

"""Share groups (KIP-932): queues on topics, whose members share partitions and acknowledge single records."""

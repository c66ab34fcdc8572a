"""Share groups (KIP-932) as a kind of group: members, assignments, share-partitions with a state."""

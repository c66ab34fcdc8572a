"""The share-partition: which records of a partition a share group has delivered, to whom and how often."""

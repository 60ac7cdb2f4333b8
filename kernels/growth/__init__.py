"""Growth of boosted trees: histogram, split, partition, and what decides their order."""

"""Tables that were binned batch by batch, in memory or on disk."""

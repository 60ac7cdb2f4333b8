"""Time of every operation beside its floor."""

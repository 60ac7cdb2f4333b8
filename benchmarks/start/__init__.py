"""Programs that measure new processes."""

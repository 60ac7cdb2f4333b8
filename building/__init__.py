"""Programs that build what the wheel for Linux adds to the sources: compiled kernels."""

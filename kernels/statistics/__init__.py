"""Per-row statistics: raw predictions, gradients, samples, integer records."""

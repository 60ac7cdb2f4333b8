"""Values of leaves: sums, Newton steps, quantiles."""

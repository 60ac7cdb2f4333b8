"""Reading tables, targets and weights, and binning."""

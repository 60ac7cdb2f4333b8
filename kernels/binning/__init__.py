"""Raw values to bin numbers: ``bin_values``, of sums of features ``project``."""

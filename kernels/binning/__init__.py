"""Raw values to bin numbers: ``bin_values``."""

"""Raw values to bin numbers."""

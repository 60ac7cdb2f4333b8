"""From result files to tables, figures and pictures."""

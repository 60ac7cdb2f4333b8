"""What ensembles of other estimators share: rows, fitting, classes, out-of-bag rows."""

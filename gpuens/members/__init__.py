"""Members of ensembles: their rows, samples and classes, fitting, and out-of-bag predictions."""

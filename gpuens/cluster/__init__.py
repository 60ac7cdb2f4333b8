"""Training by several processes that share the rows of a table: connections, rows, workers."""

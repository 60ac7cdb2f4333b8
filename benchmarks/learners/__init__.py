"""Quality and CPU time of learners that few libraries have."""

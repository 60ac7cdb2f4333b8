"""Where arrays live, where work runs, and how much memory there is."""

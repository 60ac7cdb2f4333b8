"""Growth of classification and regression trees."""

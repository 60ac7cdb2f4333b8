"""Growth of classification and regression trees.

``grow_cart`` is the one operation; ``problem`` holds the data types of its arguments and result.
"""

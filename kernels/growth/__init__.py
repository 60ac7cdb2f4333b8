"""Growth of boosted trees on integer statistics of their rows.

``grow`` partitions rows, adds up histograms and searches for splits, round by round.
``control`` decides the order of growth on the tables of ``frontier``, with the settings of
``params`` and the ``limits`` of splits; every implementation runs the same control.
"""

"""Growth of boosted trees on integer statistics of their rows.

``grow`` composes the operations ``histogram``, ``split`` and ``partition`` round by round.
``control`` decides the order of growth on the tables of ``frontier``, with the settings of
``params`` and the ``limits`` of splits; every implementation runs the same control.
"""

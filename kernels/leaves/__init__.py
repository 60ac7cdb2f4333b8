"""Values of leaves: ``newton_steps`` from exact sums of the statistics, ``quantiles`` of residuals,
and of the training targets for quantile forests.
"""

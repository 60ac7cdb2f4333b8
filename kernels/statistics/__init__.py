"""Statistics of the rows, in the order of a round: ``gradients`` (of the loss at the raw
predictions), ``samples`` (the rows of a tree), ``quantise`` (integer records that trees grow on),
and ``add_leaf_values`` (raw predictions with the new tree); ``out_of_bag`` adds up
predictions of the trees of forests.
"""

"""``newton_trees``: a round of gradient boosting, in one call where that pays: the records of
``statistics``, ``growth``, the Newton steps of ``leaves``, and the new raw predictions."""

"""Forward stagewise additive modelling with any base learner."""

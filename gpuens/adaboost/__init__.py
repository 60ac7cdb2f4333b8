"""AdaBoost for classification and regression, and Schapire's three learners."""

"""The tables that boosting is trained on, among workers too, and the memory that it takes."""

"""What all measurements share."""

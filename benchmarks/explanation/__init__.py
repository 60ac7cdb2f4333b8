"""Explanations of predictions beside other libraries."""

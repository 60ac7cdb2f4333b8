"""Errors on real data beside other libraries."""

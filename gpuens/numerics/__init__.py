"""Sums, random draws and minimisation with the same bits on every machine."""

"""Survival analysis: sums over risk sets, and gradients of times that are known to be within
bounds.
"""

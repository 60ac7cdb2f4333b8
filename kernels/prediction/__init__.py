"""Rows down the trees (``traverse``), and from raw predictions to ``probabilities``.

A forest has several layouts, of which ``traverse`` chooses one: ``cpu/blocks`` for small trees and
``cpu/deep`` for others; ``cuda/perfect`` for shallow trees and ``cuda/deep`` for others.
"""

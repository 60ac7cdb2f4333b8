"""Learning to rank: the order of documents within their queries, gradients from their pairs or from
whole lists, and the measures of a ranking.
"""

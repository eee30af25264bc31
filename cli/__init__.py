"""The command ``cohort``: ``main`` finds running groups by their connection files and asks their ports.

``views`` and ``rebalance_views`` turn the answers into tables or JSON.  ``simulate`` computes the effect of a rebalance,
``checkpoint`` reads and repairs Spark's logs, ``doctor`` checks the needs of a query.  No module of the product imports this package.
"""

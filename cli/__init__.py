"""The command ``cohort``: ``main`` finds running groups by their connection files and asks their ports.

``views`` and ``rebalance_views`` make tables or JSON of the answers.  ``simulate`` computes what a rebalance would do, ``checkpoint``
reads and repairs Spark's logs, ``doctor`` checks what a query needs.  No module of the product imports this package.
"""

"""The command ``cohort``: ``main`` finds live groups by their connection files and asks their ports.

``views``, ``rebalance_views`` and ``simulate_views`` make tables or JSON of the answers; ``simulate`` and ``live_case`` ask
what a rebalance would do.  Nothing is kept, nothing is changed.
"""

"""The status of a run as one JSON-able value, and as Prometheus metrics on a port.

``status`` reads the coordinator's group; ``metric_values`` makes samples of it; ``metrics`` serves them, to few connections at a
time, each in a thread.
"""

"""What can be seen of a run: its status as one JSON-able value, and the same in Prometheus' words on a port.

``status`` reads the coordinator's group under its lock; ``metrics`` makes samples of it; ``metrics_server`` answers few
connections at a time, each in a thread.
"""

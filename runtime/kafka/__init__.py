"""Kafka's own wire and rules, without a socket: Fetch and its sessions, logins, leader epochs, what commit metadata carries.

``membership`` is the machine of the driver's static member in the real group (KIP-345): ``membership_state`` has its values,
``membership_requests`` what is asked of it.  ``run_epoch`` tells a newer driver from an older one.  ``dead_letters`` has the records of a dead letter topic.
"""

"""Kafka's own wire and rules, without a socket: Fetch and its sessions, logins, leader epochs, what commit metadata carries."""

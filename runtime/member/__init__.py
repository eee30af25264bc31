"""A member of a group: its state, and its machine ``step(member, event, now) -> (member, actions)``."""

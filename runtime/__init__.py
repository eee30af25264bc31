"""The group: a pure core (protocol, group, member, offsets, journal) and its shell."""

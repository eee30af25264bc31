"""The wheels that ship: built by zig for two libcs and two processors from the sdist, looked through, and listed."""

"""The only part of the runtime that may block: sockets, threads, clocks, libraries."""

"""Tests of Cohort: unit (pure), shell (sockets, brokers), e2e (Spark), and what they share (support)."""

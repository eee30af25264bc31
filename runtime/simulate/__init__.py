"""What ``cohort simulate`` computes: a group as a case, what is changed in it, and what an assignor would do to it."""

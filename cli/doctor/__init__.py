"""``cohort doctor``: what a query needs, checked without one; each check is a tick or a remedy."""

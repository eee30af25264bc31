"""What makes ``dashboards/cohort.json`` and ``dashboards/rules/cohort.yml``; ``python -m tests.kit.pages`` writes them."""

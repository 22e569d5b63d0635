"""The job of this process: its place among the ranks, and what its script has chosen for it."""

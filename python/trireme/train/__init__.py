"""Training: loops over data, their progress, what listens to them."""

"""Sources of batches: data sets, feeders, and readers that fill programs."""

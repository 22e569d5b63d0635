"""Where batches come from: data sets, feeders, readers that fill programs, record files."""

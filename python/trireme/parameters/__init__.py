"""Parameters: their attributes, first values and decay, the helper that layers make them with, and tables of rows."""

"""Starting jobs: ``trireme launch --servers 2 --trainers 4 train.py``."""

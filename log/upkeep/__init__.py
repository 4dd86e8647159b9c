"""What is done with logs while they are open: flushing, retention, moving, closing."""

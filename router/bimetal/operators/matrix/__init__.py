"""What is known of each operator on each target, built from facts with their sources."""

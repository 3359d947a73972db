"""What is known of the fleet at one moment: observations, what follows from them, and events. Plain values."""

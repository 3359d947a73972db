"""What runs on the servers: container images of one matrix, and the test bed that stands in for hosts."""

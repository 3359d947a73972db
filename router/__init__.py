"""bimetal's router: an xDS control plane that decides which Triton gets a request."""

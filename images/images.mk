# The container images. Included by the Makefile; `make help` lists the targets.

# One vendor's images instead of all: make images ONLY=rocm
ONLY ?=
# 1: bootstrap the bases from the distribution's mirror, where no container registry is reachable.
OFFLINE_BASE ?=
# The builder's own packages (docker, the SBOM writer) stay out of the environment that `make up` makes.
IMAGES_VENV := $(CURDIR)/.cache/images-venv

.PHONY: images images-test

images: $(IMAGES_VENV)/.installed ## Build the images (ONLY=rocm; OFFLINE_BASE=1 without a registry)
	OFFLINE_BASE=$(OFFLINE_BASE) $(IMAGES_VENV)/bin/python -m images.cli build $(ONLY)

images-test: $(IMAGES_VENV)/.installed ## Test the built images as containers
	PATH="$(IMAGES_VENV)/bin:$$PATH" pytest tests/images/docker

$(IMAGES_VENV)/.installed: requirements.lock images/requirements/tools.lock
	$(PYTHON) -m venv $(IMAGES_VENV)
	$(IMAGES_VENV)/bin/pip install --disable-pip-version-check --require-hashes --requirement requirements.lock \
	  --requirement images/requirements/tools.lock
	@touch $@

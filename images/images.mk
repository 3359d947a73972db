# The container images. Included by the Makefile; `make help` lists the targets.

# One vendor's images instead of all: make images ONLY=rocm
ONLY ?=
# 1: bootstrap the bases from the distribution's mirror, where no container registry is reachable.
OFFLINE_BASE ?=
# The builder's own packages (docker, the SBOM writer, hadolint) stay out of the environment that `make up` makes,
# and on top of it.
IMAGES_VENV := $(CURDIR)/.cache/images-venv
IMAGES_PYTHON := $(IMAGES_VENV)/bin/python
IMAGES_PYTEST = PATH="$(IMAGES_VENV)/bin:$$PATH" $(IMAGES_PYTHON) -m pytest tests/images

.PHONY: images images-test images-ci

images: $(IMAGES_VENV)/.installed ## Build the images (ONLY=rocm; OFFLINE_BASE=1 without a registry)
	@OFFLINE_BASE=$(OFFLINE_BASE) $(IMAGES_PYTHON) -m bimetal.images.cli build $(ONLY)

images-test: $(IMAGES_VENV)/.installed ## Test the built images as containers
	$(IMAGES_PYTEST) $(ARGS)

images-ci: $(IMAGES_VENV)/.installed ## Build every image that needs no registry and test it; nothing may be skipped
	OFFLINE_BASE=1 $(IMAGES_PYTHON) -m bimetal.images.cli build
	IMAGES_REQUIRED=1 $(IMAGES_PYTEST) $(ARGS)

$(IMAGES_VENV)/.installed: $(INSTALLED) images/requirements/tools.lock
	$(PYTHON) -m venv --clear $(IMAGES_VENV)
	@# addsitedir, and not the folder's name alone: .pth files of that environment count, the project's own among them.
	@printf 'import site; site.addsitedir("%s")\n' $(VENV)/lib/python3.*/site-packages \
	  > "$$(echo $(IMAGES_VENV)/lib/python3.*/site-packages)/bimetal.pth"
	$(IMAGES_PYTHON) -m pip install --disable-pip-version-check --no-deps --require-hashes \
	  --requirement images/requirements/tools.lock
	@touch $@

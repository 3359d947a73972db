# The roles' scenarios on systemd containers. Included by the Makefile; `make help` lists the target.

# One role instead of all: make molecule ROLE=microcode
ROLE ?=
# molecule brings the whole of Ansible's collections: an environment of its own keeps `make up` small.
MOLECULE_VENV := $(CURDIR)/.cache/molecule

.PHONY: molecule testbed

molecule: $(MOLECULE_VENV)/.installed ## Run the roles' molecule scenarios, as root (ROLE=x for one)
	PATH="$(MOLECULE_VENV)/bin:$$PATH" python3 -m images.testbed molecule $(if $(ROLE),--role $(ROLE))

testbed: ## Build the systemd images that the scenarios run on, as root
	$(PYTHON) -m images.testbed images

$(MOLECULE_VENV)/.installed: requirements-molecule.lock
	$(PYTHON) -m venv $(MOLECULE_VENV)
	$(MOLECULE_VENV)/bin/pip install --disable-pip-version-check --require-hashes --requirement requirements-molecule.lock
	@touch $@

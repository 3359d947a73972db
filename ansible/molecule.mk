# The roles on systemd containers and in a virtual machine. Included by the Makefile; `make help` lists the targets.

# Roles or scenarios instead of all: make molecule SCENARIOS="microcode nvidia_driver/cuda_toolkit"
SCENARIOS ?=
# Scenarios that run at the same time.
JOBS ?= 2
# molecule brings the whole of Ansible's collections: an environment of its own keeps `make up` small.
MOLECULE_VENV := $(CURDIR)/.cache/molecule

.PHONY: molecule testbed vm-test

molecule: $(MOLECULE_VENV)/.installed ## Run the roles' scenarios, as root (SCENARIOS="x y/z", ARGS=--json)
	PATH="$(MOLECULE_VENV)/bin:$$PATH" python3 -m tests.testbed molecule --jobs $(JOBS) $(ARGS) $(SCENARIOS)

vm-test: $(INSTALLED) ## Provision a virtual machine with site.yml and reboot it, as root (ARGS=--json)
	python3 -m tests.testbed vm $(ARGS)

testbed: ## Build the systemd images that the scenarios run on, as root
	$(PYTHON) -m tests.testbed images

$(MOLECULE_VENV)/.installed: requirements-molecule.lock
	$(PYTHON) -m venv $(MOLECULE_VENV)
	$(MOLECULE_VENV)/bin/pip install --disable-pip-version-check --require-hashes --requirement requirements-molecule.lock
	@touch $@

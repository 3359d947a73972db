# The roles on systemd containers and in a virtual machine. Included by the Makefile; `make help` lists the targets.

# Roles or scenarios instead of all: make molecule SCENARIOS="microcode nvidia_driver/cuda_toolkit"
SCENARIOS ?=
# Scenarios that run at the same time.
JOBS ?= 2

.PHONY: molecule testbed vm-test

molecule: venv ## Run the roles' scenarios, as root (SCENARIOS="x y/z", ARGS=--json)
	python3 -m tests.testbed molecule --jobs $(JOBS) $(ARGS) $(SCENARIOS)

vm-test: $(INSTALLED) ## Provision a virtual machine with site.yml and reboot it, as root (ARGS=--json)
	python3 -m tests.testbed vm $(ARGS)

testbed: ## Build the systemd images that the scenarios run on, as root
	$(PYTHON) -m tests.testbed images

# It brings all of Ansible's collections, which `make up` and `make test` do without.
$(VENV)/.molecule: requirements-molecule.lock $(INSTALLED)
	pip install --disable-pip-version-check --require-hashes --requirement requirements-molecule.lock
	@touch $@

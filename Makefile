# Everything a person types. `make help` lists it.

PYTHON ?= python3
# The cluster that these targets mean: another state directory and port offset is another cluster.
STATE_DIR ?= .bimetal
PORT_OFFSET ?= 0
# What the services are: programs of this environment (process), or the images of `make images` (container).
RUNTIME ?= process
# What computes on the machine that serves the rendered models; gpu for real CUDA and ROCm hosts.
COMPUTE ?= cpu

VENV := $(CURDIR)/.venv
INSTALLED := $(VENV)/.installed
STATE := $(abspath $(STATE_DIR))
PLAYBOOK = ansible-playbook --extra-vars '{"bimetal_state_dir": "$(STATE)", "bimetal_port_offset": $(PORT_OFFSET), "bimetal_runtime": "$(RUNTIME)"}'
GATEWAY = http://127.0.0.1:$(shell expr 8000 + $(PORT_OFFSET))

export PATH := $(VENV)/bin:$(PATH)
export BIMETAL_FLEET := $(STATE)/fleet.yaml
# Ansible refuses to work in a locale that is not UTF-8.
export LC_ALL := C.UTF-8
# The environment is the lock file's alone.
unexport PYTHONPATH PYTHONHOME

.DEFAULT_GOAL := help
include ansible/molecule.mk
include images/images.mk
.PHONY: help up down status venv model-repo test test-slow test-all lint docs bench clean

help: ## List these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	@echo
	@echo "  STATE_DIR=$(STATE_DIR) PORT_OFFSET=$(PORT_OFFSET): another pair is a second, separate cluster."

up: $(INSTALLED) ## Start the cluster: three Tritons, the router, the gateway (RUNTIME=container)
	$(PLAYBOOK) ansible/serve.yml
	@bimetal status
	@printf '\nTry it:\n  %s\n' \
	  "curl -s $(GATEWAY)/v2/models/identity/infer -d '{\"inputs\": [{\"name\": \"INPUT0\", \"shape\": [1, 4], \"datatype\": \"FP32\", \"data\": [1, 2, 3, 4]}]}'"

down: ## Stop all of it, down to the last process
	@if [ -x $(VENV)/bin/ansible-playbook ]; then $(PLAYBOOK) ansible/down.yml; \
	else echo "Nothing to stop: there is no $(VENV)."; fi

status: $(INSTALLED) ## Show pools, models and shares
	@bimetal status

venv: $(INSTALLED) $(VENV)/.molecule ## Create the Python environment from the lock files, with molecule

$(INSTALLED): requirements.lock pyproject.toml
	@command -v $(PYTHON) >/dev/null || { echo "error: '$(PYTHON)' is not a command: expected Python 3.11 or 3.12." \
	  "Next: apt-get install python3-venv libpython3.11, or name one: make up PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) roles/triton/files/process_preflight.py --venv
	$(PYTHON) -m venv $(VENV)
	pip install --disable-pip-version-check --require-hashes --requirement requirements.lock
	pip install --disable-pip-version-check --no-deps --editable .
	@# Ansible looks for collections where Python looks for packages: this checkout is bimetal.cluster.
	cd $$(python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') && \
	  mkdir -p ansible_collections/bimetal && ln -sfn $(CURDIR) ansible_collections/bimetal/cluster
	@touch $@

model-repo: $(INSTALLED) ## Render the model repositories (COMPUTE=gpu for real GPU hosts)
	python -m bimetal.model_repo.build --pool cuda rocm cpu --compute cuda=$(COMPUTE) rocm=$(COMPUTE)

test: $(INSTALLED) model-repo ## Run the tests; they start what they need
	pytest -n auto --maxprocesses 4 -m "not slow" $(ARGS)

test-slow: $(INSTALLED) model-repo ## Run those that take long
	pytest -m slow $(ARGS)

test-all: test test-slow ## Run all tests

lint: $(INSTALLED) ## Check code, types, roles and YAML
	ruff check .
	ruff format --check .
	lint-imports --no-cache --no-logo
	mypy
	mypy tests/testbed $$(find roles -name '*.py' -path '*/files/*')
	yamllint --strict --config-file ansible/yamllint.yml ansible galaxy.yml meta roles tests/roles .config
	ansible-lint --offline --config-file ansible/ansible-lint.yml

docs: $(INSTALLED) ## Write docs/reference from the code
	python docs/generate.py

bench: $(INSTALLED) ## Measure direct, proxyless, gateway and plain Envoy in turn
	python -m bench $(ARGS)

clean: down ## Stop the cluster, remove everything that make created
	rm -rf $(VENV) $(STATE) .cache model_repo/cuda model_repo/rocm model_repo/cpu
	rm -rf .ansible .mypy_cache .pytest_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

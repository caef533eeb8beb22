# `make demo` and `make test` set up their own virtual environment in .venv; after that they start at once.
# Paths are relative throughout, so that the folder may have spaces in its name.

PYTHON ?= python3
COMMA = ,
# One more than cores, since many tests wait for processes that they have started.
WORKERS := $(shell cores=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); echo $$((cores < 8 ? cores + 1 : 8)))
PIP = .venv/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt

# A virtual environment survives neither being moved or copied nor the removal of its Python.
STALE := $(shell test -x .venv/bin/python && test "$$(cat .venv/made-in 2>/dev/null)" = "$$(pwd -P)" || echo stale)

.PHONY: help demo test test-all test-gpu test-libraries test-launchers throughput check horovod clean stale
.DELETE_ON_ERROR:

help:
	@echo "make demo     convert a script, train it on one and on two processes, prove that they take the same steps"
	@echo "make test     the test suite, some forty minutes on two cores"
	@echo "make test-all the same and what is slow or of more ranks, with --backend allreduce and over Horovod too: an hour"
	@echo "make test-gpu  trainings on two ranks that have a GPU each, or share one, over NCCL: some minutes"
	@echo "make test-libraries  scripts that use transformers, timm and others, for real, on two ranks"
	@echo "make test-launchers  one script under MPI, Slurm, Spark, Ray and on two networks, a quarter of an hour; installs them"
	@echo "make throughput  steps per second against training loops by hand, with Accelerate and with Fabric: an hour"
	@echo "make check     ruff, mypy and the test suite"
	@echo "make horovod  build Horovod for this torch and install it; its tests are skipped without it"
	@echo "make clean     remove what the others made"

demo: .venv/test
	@bash demo.sh

test: .venv/test
	.venv/bin/python -m pytest -n $(WORKERS) --dist worksteal

# Without Horovod (`make horovod`), its tests are skipped, and the end says so.
test-all: .venv/test
	DISTIFY_PROGRAMS=8 DISTIFY_EXAMPLES=4 .venv/bin/python -m pytest -n $(WORKERS) --dist worksteal -m 'not libraries and not launchers'

# Where there is one GPU only, ranks share it.
GPU_TESTS = tests/gpu tests/equivalence/test_fixtures.py \
  $(wildcard tests/runtime/test_data_parallel*.py tests/runtime/test_gather*.py) tests/runtime/test_batchnorm.py \
  tests/runtime/test_reduce.py tests/runtime/test_default_device.py
test-gpu: .venv/test
	@.venv/bin/python -c "import sys, torch; sys.exit(0 if torch.cuda.is_available() else 'make test-gpu: torch sees no GPU here')"
	DISTIFY_TESTS_ON=cuda .venv/bin/python -m pytest -n $(WORKERS) $(GPU_TESTS)

# Scripts that use the libraries that people train with, in an environment of their own: half a gigabyte, some minutes.
test-libraries: .venv-libraries/test
	.venv-libraries/bin/python -m pytest -n $(WORKERS) --dist worksteal -m libraries tests/libraries

# Needs to be root for Slurm's daemons and for networks; what is not there is skipped, and said.
test-launchers: .venv-launchers/test
	@test "$$(id -u)" != 0 || ! command -v apt-get > /dev/null || DEBIAN_FRONTEND=noninteractive apt-get install -y -qq \
	  --no-install-recommends openmpi-bin mpich slurm-wlm munge iproute2 default-jre-headless > /dev/null
	.venv-launchers/bin/python -m pytest -m launchers -rs tests/launchers

# How fast converted trainings are against those by hand, with Accelerate and with Fabric: an hour, of a quiet machine.
throughput: .venv-throughput/made
	.venv-throughput/bin/python benchmarks/throughput.py

check: .venv/dev
	.venv/bin/python -m ruff check .
	.venv/bin/python -m mypy
	.venv/bin/python -m pytest -n $(WORKERS) --dist worksteal

# The wheel is kept in the user's cache: the second time takes seconds.
horovod: .venv/test
	@.venv/bin/python -m distify.horovod

clean:
	rm -rf .venv .venv-launchers .venv-libraries .venv-throughput build dist *.egg-info .hypothesis .mypy_cache .pytest_cache .ruff_cache
	find benchmarks codemods distify fixtures runtime tests -name __pycache__ -prune -exec rm -rf {} +

# ---- the virtual environment: stamps say what is installed in it

.venv/test .venv/dev: .venv/made-in pyproject.toml constraints.txt
	@echo "installing distify and what its $(@F) needs into .venv"
	@$(PIP) -e '.[$(@F)]'
	@touch $@

# $(1): what it is for; $(2): the folder of its requirements; $(3): which of distify's extras
define OWN_ENVIRONMENT
@echo "installing $(1) into $(@D)"
@.venv/bin/python -m venv --clear $(@D)
@$(@D)/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt torch
@$(@D)/bin/python -m pip --disable-pip-version-check install --quiet -c constraints.txt \
  -c $(2)/constraints.txt -r $(2)/requirements.txt -e '.[$(3)]'
@touch $@
endef

.venv-libraries/test: .venv/test tests/libraries/requirements.txt tests/libraries/constraints.txt
	$(call OWN_ENVIRONMENT,the libraries that people train with,tests/libraries,test)

.venv-launchers/test: .venv/test tests/launchers/requirements.txt tests/launchers/constraints.txt
	$(call OWN_ENVIRONMENT,what starts ranks,tests/launchers,test$(COMMA)spark$(COMMA)ray)

.venv-throughput/made: .venv/test $(addprefix benchmarks/throughput_trainings/,requirements.txt constraints.txt)
	$(call OWN_ENVIRONMENT,what conversions are compared with,benchmarks/throughput_trainings,test)

# torch goes first and alone: whatever else is installed, no other version is ever downloaded.
.venv/made-in: $(if $(STALE),stale)
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 10))' || \
	  { echo "make: '$(PYTHON)' is not Python 3.10 or newer: make PYTHON=/path/to/python3 ..." >&2; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' 2>/dev/null || \
	  { echo "make: '$(PYTHON)' cannot make virtual environments: on Debian and Ubuntu, apt install python3-venv" >&2; exit 1; }
	@echo "making a virtual environment in .venv (torch alone is several hundred megabytes)"
	@"$(PYTHON)" -m venv --clear .venv
	@$(PIP) torch
	@pwd -P > $@

stale:

# make lab opens the chapters, make test verifies them; both set up first. Plain sh, GNU make 3.81 or newer.

PYTHONS = python3 python3.12 python3.11 python3.10
NOTEBOOKS = $(wildcard notebooks/*.ipynb)
STRIP = nbstripout --keep-output --keep-count --keep-id --extra-keys "metadata.language_info.version"

# Relative, so that a space in the path does no harm; PATH as in an activated environment, for !commands in cells.
RUN = PATH="$$PWD/.venv/bin:$$PATH" .venv/bin/python -m

# What .venv was made from, and where. When .venv/ready holds the same, there is nothing to do.
STATE = { pwd; cat requirements.txt pyproject.toml; } | cksum

.PHONY: help lab setup test notebooks lint benchmark gpu-kernels links clean
.NOTPARALLEL:

help:
	@echo 'make lab        set up, then open JupyterLab on notebooks/ (to it: make lab ARGS=--no-browser)'
	@echo 'make test       set up, then verify everything (to pytest: make test ARGS="-k parity")'
	@echo 'make setup      the set-up alone: .venv with requirements.txt and the helpers package'
	@echo '                (after make clean also with another Python: make setup PYTHON=/path/to/python)'
	@echo 'make notebooks  run the chapters and store their outputs (one: NOTEBOOKS=notebooks/03_pytorch.ipynb)'
	@echo 'make lint       check the style of the code, the spelling and the notebook files'
	@echo 'make benchmark  measure on a quiet machine: survey, chapters, bubble, speed-up'
	@echo 'make gpu-kernels  for a machine with GPUs: a kernel for each framework (one: KERNELS=pytorch)'
	@echo 'make links      write the links of README.md to Binder, Kaggle and Colab, from the git remote'
	@echo 'make clean      remove .venv and caches'

lab: setup
	@$(RUN) jupyterlab --LabApp.default_url=/lab/tree/notebooks $$(test "$$(id -u)" != 0 || echo --allow-root) $(ARGS)

test: setup
	@$(RUN) pytest $(ARGS)

# nbclient writes the file only when every cell ran, so a failing chapter keeps its stored form.
notebooks: setup
	@for notebook in $(NOTEBOOKS); do \
	    $(RUN) jupyter execute --inplace "$$notebook" || { echo "$$notebook failed, its file is unchanged." >&2; exit 1; }; \
	    $(RUN) tests.strip_widgets "$$notebook" && $(RUN) $(STRIP) "$$notebook" || exit 1; \
	done

lint: setup
	@$(RUN) ruff check
	@$(RUN) ruff format --check
	@$(RUN) codespell_lib
	@$(RUN) $(STRIP) --verify $(NOTEBOOKS) || { echo 'Run make notebooks for the files named above.' >&2; exit 1; }

benchmark: setup
	@$(RUN) tests.benchmark $(ARGS)

# What they hold, and why they are apart: environments/kernels.py.
gpu-kernels: setup
	@.venv/bin/python environments/kernels.py $(KERNELS)

# Needs no set-up, only some Python.
links:
	@PATH="$$PWD/.venv/bin:$$PATH" python3 binder/links.py

clean:
	rm -rf .venv build *.egg-info .pytest_cache .ruff_cache .coverage
	find helpers notebooks tests \( -name __pycache__ -o -name .ipynb_checkpoints \) -prune -exec rm -rf {} +

# .venv/unfinished marks a set-up that was interrupted: such a .venv is made anew, and so is one whose
# Python is gone or whose folder was moved (its scripts, pip among them, name the old folder).
setup:
	@if [ "$$(cat .venv/ready 2>/dev/null)" = "$$($(STATE))" ] && .venv/bin/python -c '' 2>/dev/null; then exit 0; fi; \
	version='import sys; v = sys.version_info[:2]; print("%d.%d" % v, "old" if v < (3, 10) else "new" if v > (3, 12) else "ok")'; \
	case "$$(.venv/bin/python -c "$$version" 2>/dev/null)" in \
	    *ok) if [ -e .venv/unfinished ] || ! .venv/bin/pip --version >/dev/null 2>&1; then rm -rf .venv; fi ;; \
	    *) rm -rf .venv ;; \
	esac; \
	if [ ! -e .venv ]; then \
	    problem=; chosen=; \
	    if [ -n "$$PYTHON" ]; then set -- "$$PYTHON"; else set -- $(PYTHONS); fi; \
	    for python in "$$@"; do \
	        is=$$("$$python" -c "$$version" 2>/dev/null) || continue; \
	        if [ "$${is#* }" != ok ]; then \
	            : "$${problem:=$$python is Python $${is% *}, which is too $${is#* }: install Python 3.10, 3.11 or 3.12}"; \
	        elif "$$python" -c 'import ensurepip, venv' 2>/dev/null; then chosen=$$python; break; \
	        else problem="$$python lacks the venv module: install it (Debian, Ubuntu: apt install python3-venv)"; fi; \
	    done; \
	    if [ -z "$$chosen" ]; then \
	        : "$${problem:=$${PYTHON:-Python} was not found: install Python 3.10, 3.11 or 3.12}"; \
	        echo "$$problem, or name another with make setup PYTHON=/path/to/python." >&2; exit 1; \
	    fi; \
	    mkdir .venv && touch .venv/unfinished && "$$chosen" -m venv .venv || exit 1; \
	fi; \
	echo 'Setting up .venv: the first time this downloads up to 4 GB and takes some minutes.'; \
	rm -f .venv/ready; touch .venv/unfinished; \
	.venv/bin/python -m pip install -qq --disable-pip-version-check -r requirements.txt -e . || exit 1; \
	$(STATE) > .venv/ready && rm .venv/unfinished

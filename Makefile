# Each target is a few commands that you could type. PYTHON is any Python from 3.11.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

DEMO_TASKS := DocsNumpy DocsMatplotlib DocsTorch
DEMO := demo

.PHONY: setup demo test test-slow lint bench report clean

setup: $(VENV)/installed

# torch first and alone, so that its pinned build is taken and no other is fetched on its behalf.
$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install -q --disable-pip-version-check -c constraints.txt -e '.[dev,demo]'
	touch $@

demo: setup
	$(BIN)/cde-eval mteb --model bm25 minilm cde-mini --tasks $(DEMO_TASKS) \
		--context corpus random none --output $(DEMO)/results
	$(BIN)/cde-eval report --results $(DEMO)/results --out $(DEMO)/report

test: setup lint
	$(BIN)/pytest -q -m "not slow"

test-slow: setup
	$(BIN)/pytest -q

lint: setup
	$(BIN)/ruff check -q .
	$(BIN)/ruff format -q --check .
	$(BIN)/mypy

bench: setup
	$(BIN)/python -m tests.bench

report: setup
	$(BIN)/cde-eval report --results reports/results --out reports

clean:
	rm -rf $(VENV) $(DEMO) .pytest_cache .mypy_cache .ruff_cache

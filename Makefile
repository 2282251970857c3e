.PHONY: check format lint types test mutants site

check: format lint types test  ## everything that must hold before a commit

format:
	ruff format .

lint:
	ruff check .
	ruff format --check .

types:
	mypy

test:
	python -m pytest -n auto

SITE = build/site
site:  ## the pages with the built reference, in build/site: pip install -e ".[docs]" first
	python docs/site/build.py $(SITE)

mutants:  ## faults in a part, and whether its tests notice: make mutants PART=kernels ARGS="--minutes 5"
	python docs/evidence/benchmarks/mutants.py $(PART) $(ARGS)

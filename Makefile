.PHONY: check format lint types test

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

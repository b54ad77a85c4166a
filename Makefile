# Thin names for tools/dev.py, which needs nothing but Python and does the work.
PYTHON ?= python3

.PHONY: demo test lint bench fuzz setup lock
demo test lint bench fuzz setup lock:
	@$(PYTHON) tools/dev.py $@ $(ARGS)

"""Captures whose truth is known. cases.py and joining.py make them, truth.py says what happened, scoring.py compares."""

"""Synthesized captures whose events are known: generation, expected events (truth.py) and comparison (scoring.py)."""

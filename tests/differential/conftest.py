"""Skips tests whose programs are missing, and reports the missing program."""

import pytest

import programs


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    del fixturedef, request
    try:
        return (yield)
    except programs.CannotRun as reason:
        pytest.skip(str(reason))

"""A test whose programs are not there is skipped, with what is missing as the reason."""

import pytest

import programs


@pytest.hookimpl(wrapper=True)
def pytest_fixture_setup(fixturedef, request):
    del fixturedef, request
    try:
        return (yield)
    except programs.CannotRun as reason:
        pytest.skip(str(reason))

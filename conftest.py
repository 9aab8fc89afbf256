"""Settings of all Python tests."""

import signal

# A shell starts background programs with SIGINT ignored. Programs that the tests interrupt would inherit this setting.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

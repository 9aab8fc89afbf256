"""Settings of all Python tests."""

import signal

# A background shell starts programs with SIGINT ignored. The interrupted test programs would inherit this.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

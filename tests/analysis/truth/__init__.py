"""Ground truth of captures, derived from tshark's fields independently of rdmawire.

`packets` runs tshark once per capture, `pairing` pairs the directions, `infiniband` and `iwarp` count packets and
reassemble messages, and `table` prints the result. All but `packets` are pure functions.
"""

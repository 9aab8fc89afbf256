"""Prints the ground truth of captures: python3 -m truth.table FILE… (run in tests/analysis)."""

import sys

from . import infiniband, iwarp, packets


def lines(path):
    frames = packets.rows(path)
    for c in infiniband.connections(frames, packets.infiniband_packets(frames)):
        yield f"{c.first_frame}: {c.service} {c.a} {c.b} {c.paired_by}"
        for end in "ab":
            s = c.sent[end]
            yield (
                f"    {end} packets {s.packets} payload {s.payload_bytes} requests {s.requests} "
                f"responses {s.responses} messages {dict(s.messages)} {s.message_bytes} "
                f"retransmitted {s.retransmitted_packets} recoveries {s.recoveries} "
                f"filled {s.filled} missing {s.missing} acks {s.acks} naks {dict(s.naks)} rnr {s.rnr_naks} "
                f"cnp {s.cnps} ce {s.ecn_marked}/{s.ecn_capable} "
                f"incomplete {sum(not m.complete for m in c.messages[end])}"
            )
            for r in c.recoveries[end]:
                yield (
                    f"        recovery {r.frame} to {r.first_psn} retransmitted {len(r.retransmitted)} {r.cause} "
                    f"{r.cause_frame} {r.silence:.6f}"
                )
    for stream in iwarp.streams(frames):
        yield f"{stream.first_frame}: iwarp {stream.a} {stream.b} request in {stream.request_frame}"
        for end in "ab":
            s = stream.sent[end]
            yield (
                f"    {end} fpdus {s.fpdus} payload {s.payload_bytes} messages {dict(s.messages)} {s.message_bytes} "
                f"read responses {s.response_bytes} "
                f"tcp retransmissions {len(s.tcp_retransmissions)} of {len(s.tcp_fills)} "
                f"incomplete {sum(not m.complete for m in stream.messages[end])}"
            )


def main(paths):
    for path in paths:
        print(f"## {path}")
        for line in lines(path):
            print(line)


if __name__ == "__main__":
    main(sys.argv[1:])

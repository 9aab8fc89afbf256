"""Many queue pairs between few hosts, without faults, to test the pairing of directions.

Kinds:
random         first PSNs are random, as with the CM and with programs that exchange them as text
zero           all first PSNs are 0, as with NCCL
middle         the capture starts in the middle of the traffic
one_direction  for a quarter of the connections, the capture contains only one direction
reused         a third of the connections end, and a new one reuses one or both of their queue pairs after a second
cm, text       like random, with the CM or text exchange that identifies the connections
"""

import random as random_module

from . import phases, evidence
from .capture import Frames
from .cases import START, HostPool
from .network import MILLISECOND, SECOND
from .wire import PSNS

KINDS = ("random", "zero", "middle", "one_direction", "reused", "cm", "text")


def _post_bursts(c, random, bursts, span):
    """Post bursts of requests, spread over `span` ns. One endpoint is the main requester."""
    main = random.randrange(2) if c.evidence is None else 0
    both = random.random() < .3
    times = sorted(random.randrange(span) for _ in range(bursts))
    for i, at in enumerate(times):
        c.clock.run(c.begin + at)
        end = main if i == 0 or not both else random.randrange(2)
        c.phase = 1
        kinds = random.choice((("send",), ("write",), ("send", "write", "read"), phases.KINDS))
        c.ends[end].post([phases.message(c, end, random.choice(kinds), random.choice((1, 1, 1, 2, 4)))
                          for _ in range(random.choice((1, 1, 2)))])
        c.settle()


def make(count, seed, hosts=8, kind="random", span=None):
    """Return the frames of `count` connections between `hosts` hosts, of a kind above."""
    random = random_module.Random(seed)
    pool = HostPool(random, hosts, v6=0)
    span = span or 4 * SECOND
    connections = []
    for number in range(count):
        own = random_module.Random(f"{seed}/{kind}/{number}")
        psns = [0, 0] if kind == "zero" else [own.randrange(PSNS), own.randrange(PSNS)]
        c = pool.connection(own, v4=True, begin=START + own.randrange(span // 4), first_psns=psns)
        for end in c.ends:  # small packets suffice
            end.behavior.mtu = 256
        close = None
        if kind == "cm":
            c.evidence = "connection_manager"
            close = evidence.connection_manager(c, own)
        elif kind == "text":
            c.evidence = "text"
            close = evidence.text(c, own)
        c.name, c.clean = f"joining {kind}", True
        _post_bursts(c, own, own.randrange(2, 8), span)
        if kind == "one_direction" and own.random() < .25:
            c.one_direction, c.clean = own.randrange(2), False
        connections.append(c)
        if close:
            close()
        if kind == "reused" and own.random() < 1 / 3:
            qps = list(c.qps)
            if own.random() < .5:
                qps[own.randrange(2)] = None
            qps = [qp or pool.qp(host) for qp, host in zip(qps, c.hosts)]
            psns = [(first + end.planned + own.randrange(1 << 20, 1 << 23)) % PSNS
                    for first, end in zip(c.first_psns, c.ends)]
            reused = pool.connection(own, begin=c.clock.now + own.randrange(1000, 2000) * MILLISECOND, hosts=c.hosts,
                                     qps=qps, first_psns=psns)
            for end in reused.ends:
                end.behavior.mtu = 256
            reused.name, reused.clean = c.name, True
            _post_bursts(reused, own, own.randrange(2, 6), span // 4)
            connections.append(reused)
    return Frames(connections, START + span // 2 if kind == "middle" else None)

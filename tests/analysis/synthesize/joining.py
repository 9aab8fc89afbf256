"""Many queue pairs between few hosts, without faults: which two are a connection is for the reader to find out.

Kinds:
random        first PSNs at random, as the CM and the programs that exchange them in text choose them
zero          all first PSNs are 0, as NCCL makes its queue pairs
middle        the capture begins when they have long been at work
one_direction of a quarter of the connections, the capture has only what one end sent
reused        a third of the queue pairs are used again, for another peer queue pair, after a second
cm, text      as random, with the exchange that tells the truth: hide it, and compare
"""

import random as randoms

from . import acts, evidence
from .capture import Frames
from .cases import START, World
from .network import MILLISECOND, SECOND
from .wire import PSNS

KINDS = ("random", "zero", "middle", "one_direction", "reused", "cm", "text")


def _work(c, random, bursts, span):
    """A life of bursts, spread over `span` ns: mostly one side asks, as in storage and collectives."""
    main = random.randrange(2) if c.evidence is None else 0
    both = random.random() < .3
    times = sorted(random.randrange(span) for _ in range(bursts))
    for i, at in enumerate(times):
        c.clock.run(c.begin + at)
        end = main if i == 0 or not both else random.randrange(2)
        c.act = 1
        kinds = random.choice((("send",), ("write",), ("send", "write", "read"), acts.KINDS))
        c.ends[end].post([acts.message(c, end, random.choice(kinds), random.choice((1, 1, 1, 2, 4)))
                          for _ in range(random.choice((1, 1, 2)))])
        c.settle()


def make(count, seed, hosts=8, kind="random", span=None):
    """`count` connections between `hosts`, of a kind above; the truth is each connection's two ends."""
    random = randoms.Random(seed)
    world = World(random, hosts, v6=0)
    span = span or 4 * SECOND
    connections = []
    for number in range(count):
        own = randoms.Random(f"{seed}/{kind}/{number}")
        psns = [0, 0] if kind == "zero" else [own.randrange(PSNS), own.randrange(PSNS)]
        c = world.connection(own, v4=True, begin=START + own.randrange(span // 4), first_psns=psns)
        for end in c.ends:  # small: what counts is who answers whom
            end.manners.mtu = 256
        close = None
        if kind == "cm":
            c.evidence = "connection_manager"
            close = evidence.connection_manager(c, own)
        elif kind == "text":
            c.evidence = "text"
            close = evidence.text(c, own)
        c.name, c.clean = f"joining {kind}", True
        _work(c, own, own.randrange(2, 8), span)
        if kind == "one_direction" and own.random() < .25:
            c.one_direction, c.clean = own.randrange(2), False
        connections.append(c)
        if close:
            close()
        if kind == "reused" and own.random() < 1 / 3:
            qps = list(c.qps)
            if own.random() < .5:
                qps[own.randrange(2)] = None
            qps = [qp or world.qp(host) for qp, host in zip(qps, c.hosts)]
            psns = [(first + end.planned + own.randrange(1 << 20, 1 << 23)) % PSNS
                    for first, end in zip(c.first_psns, c.ends)]
            again = world.connection(own, begin=c.clock.now + own.randrange(1000, 2000) * MILLISECOND, hosts=c.hosts,
                                     qps=qps, first_psns=psns)
            for end in again.ends:
                end.manners.mtu = 256
            again.name, again.clean = c.name, True
            _work(again, own, own.randrange(2, 6), span // 4)
            connections.append(again)
    return Frames(connections, START + span // 2 if kind == "middle" else None)

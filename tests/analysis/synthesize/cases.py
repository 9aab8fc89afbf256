"""Cases: a connection with a story of acts, drawn by a seed. One seed always gives the same capture, byte for byte."""

import random as randoms

from . import acts, evidence
from .capture import Frames
from .connection import Connection, Manners
from .network import MICROSECOND, MILLISECOND, SECOND
from .truth import Told
from .wire import PSNS, Host

START = 1_790_000_000 * SECOND  # when captures begin, since 1970

CRC_CHANGES = ("source_port", "ip_identification", "payload", "pad", "unknown")
CRC_SENDERS = ("ttl_not_masked", "traffic_class_not_masked", "checksum_not_masked", "bth_reserved_not_masked")
FATAL = ("invalid_request", "remote_access_error", "remote_operational_error", "invalid_rd_request")

# Acts after which the connection goes on.
RECOVERING = {
    "loses_requests_before": lambda c: acts.loses_requests(c, "before"),
    "loses_requests_after": lambda c: acts.loses_requests(c, "after"),
    "loses_requests_in_capture": lambda c: acts.loses_requests(c, "capture"),
    "loses_read_request_before": lambda c: acts.loses_read_request(c, "before"),
    "loses_read_request_after": lambda c: acts.loses_read_request(c, "after"),
    "loses_tail_before": lambda c: acts.loses_tail(c, "before"),
    "loses_tail_after": lambda c: acts.loses_tail(c, "after"),
    "loses_tail_in_capture": lambda c: acts.loses_tail(c, "capture"),
    "loses_acknowledgement_before": lambda c: acts.loses_acknowledgement(c, "before"),
    "loses_acknowledgement_after": lambda c: acts.loses_acknowledgement(c, "after"),
    "acknowledgement_comes_late": acts.acknowledgement_comes_late,
    "timer_too_short": acts.timer_too_short,
    "loses_responses_before": lambda c: acts.loses_responses(c, "before"),
    "loses_responses_after": lambda c: acts.loses_responses(c, "after"),
    "loses_responses_in_capture": lambda c: acts.loses_responses(c, "capture"),
    "loses_last_responses_before": lambda c: acts.loses_responses(c, "before", tail=True),
    "loses_last_responses_after": lambda c: acts.loses_responses(c, "after", tail=True),
    "loses_atomic_answer_before": lambda c: acts.loses_atomic_answer(c, "before"),
    "loses_atomic_answer_after": lambda c: acts.loses_atomic_answer(c, "after"),
    "loses_atomic_answer_in_capture": lambda c: acts.loses_atomic_answer(c, "capture"),
    "reorders_requests": lambda c: acts.reorders_requests(c, "network"),
    "reorders_requests_tolerated": lambda c: acts.reorders_requests(c, "tolerated"),
    "reorders_requests_in_capture": lambda c: acts.reorders_requests(c, "capture"),
    "reorders_responses": lambda c: acts.reorders_responses(c, "network"),
    "reorders_responses_in_capture": lambda c: acts.reorders_responses(c, "capture"),
    "copies_request": lambda c: acts.copies(c, "network", "request"),
    "copies_request_in_capture": lambda c: acts.copies(c, "capture", "request"),
    "copies_acknowledgement": lambda c: acts.copies(c, "network", "answer"),
    "copies_acknowledgement_in_capture": lambda c: acts.copies(c, "capture", "answer"),
    "not_ready": acts.not_ready,
    "repeats_acknowledgement": acts.repeats_acknowledgement,
    "answers_unasked": acts.answers_unasked,
    "counts_wrongly": acts.counts_wrongly,
    **{f"damage_{cause}": lambda c, cause=cause: acts.damage(c, cause, False) for cause in CRC_CHANGES},
    **{f"damage_{cause}_in_network": lambda c, cause=cause: acts.damage(c, cause, True) for cause in CRC_CHANGES},
    **{f"sender_{cause}": lambda c, cause=cause: acts.sender_forgets_mask(c, cause) for cause in CRC_SENDERS},
    "cut_short": acts.cut_short,
    "wrong_pkey": acts.wrong_pkey,
    "marked": acts.marked,
    "path_changes": acts.path_changes,
    "storm": acts.storm,
}
# Acts that take seconds, or hundreds of packets: alone, and not too many of them.
LONG = {
    "rate_falls": lambda c: acts.notified(c, c.random.choice((2, 3, 4))),
    "rate_unchanged": lambda c: acts.notified(c, 0),
    "stalls_with_nothing_outstanding": lambda c: acts.stalls(c, "nothing_outstanding"),
    "stalls_for_peer": lambda c: acts.stalls(c, "peer"),
    "stalls_for_credit": lambda c: acts.stalls(c, "credit"),
    "stalls_for_receiver": lambda c: acts.not_ready(c, stalls=True),
}
# Acts that end the connection.
LAST = {
    **{f"refused_{code}": lambda c, code=code: acts.refused(c, code) for code in FATAL},
    "no_answer": acts.no_answer,
    "wrong_segment": acts.wrong_segment,
    "wrong_opcode": acts.wrong_opcode,
}
# Cases that need another connection than the usual one.
SPECIAL = ("uc_gap", "uc_clean", "ud_qkey", "ud_clean", "replaced", "address_rewritten", "one_direction",
           "too_many_reads")
IPV4_ONLY = ("damage_ip_identification", "damage_ip_identification_in_network", "address_rewritten")


class World:
    """Hosts, and the queue pairs that are given out."""

    def __init__(self, random, hosts=14, v6=4):
        self.random = random
        self.hosts = [Host(bytes([0x52, 0x54, 0, 1, i >> 8, i & 255]),
                           bytes([10, 1, i >> 8, 1 + i]) if i < hosts - v6 else
                           bytes.fromhex("fd000000000000000000000000000000")[:15] + bytes([i])) for i in range(hosts)]
        self.v4, self.v6 = self.hosts[:hosts - v6], self.hosts[hosts - v6:]
        self.given = {host: set() for host in self.hosts}
        self.next = {host: random.randrange(0x11, 0x4000) for host in self.hosts}

    def qp(self, host):
        """As devices do: mostly one after the other, so that several hosts have the same numbers."""
        while True:
            self.next[host] += 1 if self.random.random() < .8 else self.random.randrange(2, 50)
            qp = self.next[host] & 0xFFFFFF
            if qp > 1 and qp not in self.given[host]:
                self.given[host].add(qp)
                return qp

    def first_psn(self):
        draw = self.random.random()
        if draw < .4:
            return PSNS - self.random.randrange(1, 60)  # wraps soon
        return 0 if draw < .5 else self.random.randrange(PSNS)

    def connection(self, random, service="rc", v4=False, begin=START, hosts=None, qps=None, first_psns=None,
                   evidence_kind=None):
        hosts = hosts or random.sample(self.v4 if v4 or random.random() < .85 else self.v6, 2)
        qps = qps or [self.qp(host) for host in hosts]
        manners = [Manners.drawn(random), Manners.drawn(random)]
        manners[1].mtu = manners[0].mtu
        pkey = random.choice((0xFFFF, 0xFFFF, 0x8001))
        manners[0].pkey = manners[1].pkey = pkey
        way = random.randrange(1_000, 15_000)
        at = round(way * random.choice((.02, .98, random.random())))
        return Connection(random, service, hosts, qps, first_psns or [self.first_psn(), self.first_psn()], manners, begin,
                          source_ports(random, qps), (at, way - at), evidence_kind)


def source_ports(random, qps):
    """As stacks choose them: from both queue pairs (Linux: a hash folded to 14 bits), one for all, or at random."""
    how = random.random()
    if how < .4:
        product = qps[0] * qps[1]
        product ^= product >> 20
        product ^= product >> 40
        label = product & 0xFFFFF
        port = (label & 0x3FFF ^ (label & 0xFC000) >> 14) | 0xC000
        return [port, port]
    if how < .6:
        return [49152, 49152]
    return [random.randrange(49152, 65536), random.randrange(49152, 65536)]


def _acts_case(world, random, begin, name, names):
    c = world.connection(random, v4=any(n in IPV4_ONLY for n in names), begin=begin)
    close = _evidence(c, random)
    c.name = name
    acts.clean(c, 0)  # whoever asked for the connection sends first
    for one in names:
        act = RECOVERING.get(one) or LONG.get(one) or LAST[one]
        act(c)
        if one not in LAST and random.random() < .5:
            acts.clean(c)
    if names and names[-1] not in LAST:
        acts.clean(c)
    close()
    return [c]


def _evidence(c, random):
    draw = random.random()
    if draw < .12:
        c.evidence = "connection_manager"
        return evidence.connection_manager(c, random)
    if draw < .17:
        c.evidence = "text"
        return evidence.text(c, random)
    return lambda: None


def _clean_case(world, random, begin, name):
    c = world.connection(random, begin=begin)
    close = _evidence(c, random)
    c.name, c.clean = name, True
    acts.clean(c, 0)
    for _ in range(random.randrange(1, 6)):
        acts.clean(c)
    close()
    return [c]


def _special_case(world, random, begin, name):
    if name in ("uc_gap", "uc_clean"):
        c = world.connection(random, "uc", begin=begin)
        for _ in range(random.randrange(1, 4)):
            acts.clean(c)
            if name == "uc_gap":
                acts.gap_of_uc(c)
        c.clean = name == "uc_clean"
    elif name in ("ud_qkey", "ud_clean"):
        c = world.connection(random, "ud", begin=begin)
        for _ in range(random.randrange(1, 4)):
            acts.clean(c)
        if name == "ud_qkey":
            acts.wrong_qkey(c)
        c.clean = name == "ud_clean"
    elif name == "address_rewritten":
        c = world.connection(random, v4=True, begin=begin)
        acts.clean(c, 0)
        acts.clean(c)
        c.rewritten = (random.randrange(2), f"192.0.2.{random.randrange(1, 255)}")
        acts.rewrite_address(c, c.rewritten[0], bytes(int(part) for part in c.rewritten[1].split(".")))
    elif name == "too_many_reads":
        c = world.connection(random, begin=begin)
        agreed = random.choice((1, 2, 4))
        for end in c.ends:
            end.manners.reads = agreed
            end.manners.turn = max(end.manners.turn, 3 * MICROSECOND + 8 * end.manners.spacing)
        close = evidence.connection_manager(c, random, agreed)
        c.evidence = "connection_manager"
        acts.clean(c, 0)
        acts.too_many_reads(c, agreed)
        acts.clean(c)
        close()
    elif name == "one_direction":
        c = world.connection(random, begin=begin)
        for _ in range(random.randrange(1, 4)):
            acts.clean(c, 0)
            acts.loses_requests(c, "capture")
        c.one_direction = random.randrange(2)
    else:
        return _replaced_case(world, random, begin, name)
    c.name = name
    return [c]


def _replaced_case(world, random, begin, name):
    """The same queue pairs, or one of them with a new one of the peer, after a while of silence."""
    old = world.connection(random, begin=begin)
    acts.clean(old, 0)
    acts.clean(old)
    qps = list(old.qps)
    if random.random() < .3:
        qps[random.randrange(2)] = world.qp(old.hosts[0])
    psns = [(first + end.planned + random.randrange(1 << 21, 1 << 23)) % PSNS
            for first, end in zip(old.first_psns, old.ends)]
    new = world.connection(random, begin=old.clock.now + random.randrange(1200, 3000) * MILLISECOND, hosts=old.hosts,
                           qps=qps, first_psns=psns)
    new.replaces, new.name, old.name = old, name, name
    acts.clean(new, 0)
    acts.clean(new)
    # With both queue pairs the same, the first frame shows it; with one of them, the first that goes to it.
    new.told.append(Told("replaced", ["none"], between=_shows_itself(new, qps == old.qps)))
    return [old, new]


def _shows_itself(c, at_once):
    """Between which transmissions a new connection may be noticed: at its first (or the first answer) with both queue
    pairs the same; else until both directions were seen in both roles."""
    first = [min((t for t in c.network.transmissions if t.captures and wanted(t)), key=lambda t: t.index, default=None)
             for wanted in (lambda t: True, *(lambda t, end=end, role=role: t.sender == end and t.role == role
                                              for end in (0, 1) for role in ("request", "answer")))]
    first = sorted(dict.fromkeys(t for t in first if t), key=lambda t: t.captures[0].time)
    return (first[0], first[1 if at_once else -1])


def draw_plan(random, cases):
    """(name, [acts]) of each case: every act alone at least once if there is room, the rest mixed and clean."""
    alone = [(name, [name]) for name in (*RECOVERING, *LONG, *LAST)] + [(name, None) for name in SPECIAL]
    plan = alone[:cases]
    while len(plan) < cases:
        draw = random.random()
        if draw < .15:
            plan.append(("clean", []))
        elif draw < .25:
            plan.append((random.choice(SPECIAL), None))
        elif draw < .265:
            name = random.choice(tuple(LONG))
            plan.append((name, [name]))
        elif draw < .35:
            name = random.choice(tuple(LAST))
            plan.append((name, [name]))
        elif draw < .6:
            name = random.choice(tuple(RECOVERING))
            plan.append((name, [name]))
        else:
            names = random.choices(tuple(RECOVERING), k=random.randrange(2, 6))
            if random.random() < .15:
                names.append(random.choice(tuple(LAST)))
            plan.append(("mixed: " + ", ".join(names), names))
    return plan


def make(cases, seed, only=None, together=2 * SECOND):
    """The frames of so many cases. `only`: cases of this name alone. `together`: in this time (ns) they all begin."""
    random = randoms.Random(seed)
    world = World(random)
    plan = [(only, None if only in SPECIAL else [] if only == "clean" else [only])] * cases if only else draw_plan(
        random, cases)
    connections = []
    for number, (name, names) in enumerate(plan):
        own = randoms.Random(f"{seed}/{number}")  # so that one case can change and the others stay
        begin = START + 10 * MILLISECOND + own.randrange(together)
        if names is None:
            connections += _special_case(world, own, begin, name)
        elif name == "clean":
            connections += _clean_case(world, own, begin, name)
        else:
            connections += _acts_case(world, own, begin, name, names)
    # Long after all: so that what was never answered is seen to be never answered.
    end = max(c.clock.now for c in connections) + 12 * SECOND
    c = world.connection(randoms.Random(f"{seed}/end"), begin=end)
    c.name, c.clean = "clean", True
    acts.clean(c, 0)
    return Frames(connections + [c])

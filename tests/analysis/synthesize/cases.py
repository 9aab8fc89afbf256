"""Cases: connections composed of phases. The same seed always gives the same bytes."""

import random as random_module

from . import phases, evidence
from .capture import Frames
from .connection import Connection, Behavior
from .network import MICROSECOND, MILLISECOND, SECOND
from .truth import InjectedEvent
from .wire import PSNS, Host

START = 1_790_000_000 * SECOND  # start time of captures, ns since 1970

CRC_CHANGES = ("source_port", "ip_identification", "payload", "pad", "unknown")
CRC_SENDERS = ("ttl_not_masked", "traffic_class_not_masked", "checksum_not_masked", "bth_reserved_not_masked")
FATAL = ("invalid_request", "remote_access_error", "remote_operational_error", "invalid_rd_request")

# Phases after which the connection continues.
RECOVERABLE = {
    "lose_requests_before": lambda c: phases.lose_requests(c, "before"),
    "lose_requests_after": lambda c: phases.lose_requests(c, "after"),
    "lose_requests_in_capture": lambda c: phases.lose_requests(c, "capture"),
    "lose_read_request_before": lambda c: phases.lose_read_request(c, "before"),
    "lose_read_request_after": lambda c: phases.lose_read_request(c, "after"),
    "lose_tail_before": lambda c: phases.lose_tail(c, "before"),
    "lose_tail_after": lambda c: phases.lose_tail(c, "after"),
    "lose_tail_in_capture": lambda c: phases.lose_tail(c, "capture"),
    "lose_acknowledgement_before": lambda c: phases.lose_acknowledgement(c, "before"),
    "lose_acknowledgement_after": lambda c: phases.lose_acknowledgement(c, "after"),
    "delay_acknowledgement": phases.delay_acknowledgement,
    "shorten_timer": phases.shorten_timer,
    "lose_responses_before": lambda c: phases.lose_responses(c, "before"),
    "lose_responses_after": lambda c: phases.lose_responses(c, "after"),
    "lose_responses_in_capture": lambda c: phases.lose_responses(c, "capture"),
    "lose_last_responses_before": lambda c: phases.lose_responses(c, "before", tail=True),
    "lose_last_responses_after": lambda c: phases.lose_responses(c, "after", tail=True),
    "lose_atomic_response_before": lambda c: phases.lose_atomic_response(c, "before"),
    "lose_atomic_response_after": lambda c: phases.lose_atomic_response(c, "after"),
    "lose_atomic_response_in_capture": lambda c: phases.lose_atomic_response(c, "capture"),
    "reorder_requests": lambda c: phases.reorder_requests(c, "network"),
    "reorder_requests_tolerated": lambda c: phases.reorder_requests(c, "tolerated"),
    "reorder_requests_in_capture": lambda c: phases.reorder_requests(c, "capture"),
    "reorder_responses": lambda c: phases.reorder_responses(c, "network"),
    "reorder_responses_in_capture": lambda c: phases.reorder_responses(c, "capture"),
    "duplicate_request": lambda c: phases.duplicate_packet(c, "network", "request"),
    "duplicate_request_in_capture": lambda c: phases.duplicate_packet(c, "capture", "request"),
    "duplicate_acknowledgement": lambda c: phases.duplicate_packet(c, "network", "response"),
    "duplicate_acknowledgement_in_capture": lambda c: phases.duplicate_packet(c, "capture", "response"),
    "receiver_not_ready": phases.not_ready,
    "repeat_acknowledgement": phases.repeat_acknowledgement,
    "send_unsolicited_response": phases.send_unsolicited_response,
    "corrupt_msn": phases.corrupt_msn,
    **{f"corrupt_{cause}": lambda c, cause=cause: phases.corrupt(c, cause, False) for cause in CRC_CHANGES},
    **{f"corrupt_{cause}_in_network": lambda c, cause=cause: phases.corrupt(c, cause, True) for cause in CRC_CHANGES},
    **{f"sender_{cause}": lambda c, cause=cause: phases.omit_mask(c, cause) for cause in CRC_SENDERS},
    "truncate": phases.truncate,
    "wrong_pkey": phases.wrong_pkey,
    "mark_ecn": phases.mark_ecn,
    "change_path": phases.change_path,
    "storm": phases.storm,
}
# Phases that take seconds or hundreds of packets. Each of them forms a separate case, and such cases are rare.
LONG_PHASES = {
    "reduce_rate": lambda c: phases.change_rate(c, c.random.choice((2, 3, 4))),
    "keep_rate": lambda c: phases.change_rate(c, 0),
    "stall_without_requests": lambda c: phases.stall(c, "nothing_outstanding"),
    "stall_for_peer": lambda c: phases.stall(c, "peer"),
    "stall_for_credit": lambda c: phases.stall(c, "credit"),
    "stall_for_receiver": lambda c: phases.not_ready(c, stall=True),
}
# Phases that end the connection.
FATAL_PHASES = {
    **{f"rejected_{code}": lambda c, code=code: phases.reject(c, code) for code in FATAL},
    "no_response": phases.no_response,
    "wrong_segment": phases.wrong_segment,
    "wrong_opcode": phases.wrong_opcode,
}
# Cases with a different connection setup.
SPECIAL_CASES = ("uc_gap", "uc_clean", "ud_qkey", "ud_clean", "replaced", "address_rewritten", "one_direction",
           "too_many_reads")
IPV4_ONLY = ("corrupt_ip_identification", "corrupt_ip_identification_in_network", "address_rewritten")


class HostPool:
    """Hosts, and the QP numbers that they have assigned."""

    def __init__(self, random, hosts=14, v6=4):
        self.random = random
        self.hosts = [Host(bytes([0x52, 0x54, 0, 1, i >> 8, i & 255]),
                           bytes([10, 1, i >> 8, 1 + i]) if i < hosts - v6 else
                           bytes.fromhex("fd000000000000000000000000000000")[:15] + bytes([i])) for i in range(hosts)]
        self.v4, self.v6 = self.hosts[:hosts - v6], self.hosts[hosts - v6:]
        self.assigned = {host: set() for host in self.hosts}
        self.next = {host: random.randrange(0x11, 0x4000) for host in self.hosts}

    def qp(self, host):
        """Return a new QP number. Most are consecutive, as with real devices, so hosts have QP numbers in common."""
        while True:
            self.next[host] += 1 if self.random.random() < .8 else self.random.randrange(2, 50)
            qp = self.next[host] & 0xFFFFFF
            if qp > 1 and qp not in self.assigned[host]:
                self.assigned[host].add(qp)
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
        behavior = [Behavior.draw(random), Behavior.draw(random)]
        behavior[1].mtu = behavior[0].mtu
        pkey = random.choice((0xFFFF, 0xFFFF, 0x8001))
        behavior[0].pkey = behavior[1].pkey = pkey
        path_time = random.randrange(1_000, 15_000)
        at = round(path_time * random.choice((.02, .98, random.random())))
        return Connection(random, service, hosts, qps, first_psns or [self.first_psn(), self.first_psn()],
                          behavior, begin,
                          source_ports(random, qps), (at, path_time - at), evidence_kind)


def source_ports(random, qps):
    """Draw the UDP source ports: computed from both QP numbers (Linux: a hash of 14 bits), constant, or random."""
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


def _phases_case(pool, random, begin, name, names):
    c = pool.connection(random, v4=any(n in IPV4_ONLY for n in names), begin=begin)
    close = _evidence(c, random)
    c.name = name
    phases.clean(c, 0)  # the active side of the connection sends first
    for phase_name in names:
        phase = RECOVERABLE.get(phase_name) or LONG_PHASES.get(phase_name) or FATAL_PHASES[phase_name]
        phase(c)
        if phase_name not in FATAL_PHASES and random.random() < .5:
            phases.clean(c)
    if names and names[-1] not in FATAL_PHASES:
        phases.clean(c)
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


def _clean_case(pool, random, begin, name):
    c = pool.connection(random, begin=begin)
    close = _evidence(c, random)
    c.name, c.clean = name, True
    phases.clean(c, 0)
    for _ in range(random.randrange(1, 6)):
        phases.clean(c)
    close()
    return [c]


def _special_case(pool, random, begin, name):
    if name in ("uc_gap", "uc_clean"):
        c = pool.connection(random, "uc", begin=begin)
        for _ in range(random.randrange(1, 4)):
            phases.clean(c)
            if name == "uc_gap":
                phases.lose_uc_packets(c)
        c.clean = name == "uc_clean"
    elif name in ("ud_qkey", "ud_clean"):
        c = pool.connection(random, "ud", begin=begin)
        for _ in range(random.randrange(1, 4)):
            phases.clean(c)
        if name == "ud_qkey":
            phases.wrong_qkey(c)
        c.clean = name == "ud_clean"
    elif name == "address_rewritten":
        c = pool.connection(random, v4=True, begin=begin)
        phases.clean(c, 0)
        phases.clean(c)
        c.rewritten = (random.randrange(2), f"192.0.2.{random.randrange(1, 255)}")
        phases.rewrite_address(c, c.rewritten[0], bytes(int(part) for part in c.rewritten[1].split(".")))
    elif name == "too_many_reads":
        c = pool.connection(random, begin=begin)
        negotiated = random.choice((1, 2, 4))
        for end in c.ends:
            end.behavior.max_reads = negotiated
            delay = end.behavior.response_delay
            end.behavior.response_delay = max(delay, 3 * MICROSECOND + 8 * end.behavior.packet_time)
        close = evidence.connection_manager(c, random, negotiated)
        c.evidence = "connection_manager"
        phases.clean(c, 0)
        phases.too_many_reads(c, negotiated)
        phases.clean(c)
        close()
    elif name == "one_direction":
        c = pool.connection(random, begin=begin)
        for _ in range(random.randrange(1, 4)):
            phases.clean(c, 0)
            phases.lose_requests(c, "capture")
        c.one_direction = random.randrange(2)
    else:
        return _replaced_case(pool, random, begin, name)
    c.name = name
    return [c]


def _replaced_case(pool, random, begin, name):
    """Reuse both QPs of a connection, or one of them with another peer QP, after a period without packets."""
    old = pool.connection(random, begin=begin)
    phases.clean(old, 0)
    phases.clean(old)
    qps = list(old.qps)
    if random.random() < .3:
        qps[random.randrange(2)] = pool.qp(old.hosts[0])
    psns = [(first + end.planned + random.randrange(1 << 21, 1 << 23)) % PSNS
            for first, end in zip(old.first_psns, old.ends)]
    new = pool.connection(random, begin=old.clock.now + random.randrange(1200, 3000) * MILLISECOND, hosts=old.hosts,
                           qps=qps, first_psns=psns)
    new.replaces, new.name, old.name = old, name, name
    phases.clean(new, 0)
    phases.clean(new)
    # The replacement is visible in the first frame if both QPs are reused, otherwise in the first frame to the reused
    # QP.
    new.injected.append(InjectedEvent("replaced", ["none"], between=_replacement_range(new, qps == old.qps)))
    return [old, new]


def _replacement_range(c, same_qps):
    """Return the transmissions between which the replacement can be detected.

    If both QPs are reused, the first packet already shows the replacement. Otherwise, the requests and responses of
    both endpoints may be necessary.
    """
    first = [min((t for t in c.network.transmissions if t.captures and wanted(t)), key=lambda t: t.index, default=None)
             for wanted in (lambda t: True, *(lambda t, end=end, role=role: t.sender == end and t.role == role
                                              for end in (0, 1) for role in ("request", "response")))]
    first = sorted(dict.fromkeys(t for t in first if t), key=lambda t: t.captures[0].time)
    return (first[0], first[1 if same_qps else -1])


def draw_plan(random, cases):
    """Return (name, [phases]) of each case: first every phase by itself, then mixed and clean cases."""
    single = [(name, [name]) for name in (*RECOVERABLE, *LONG_PHASES, *FATAL_PHASES)]
    single += [(name, None) for name in SPECIAL_CASES]
    plan = single[:cases]
    while len(plan) < cases:
        draw = random.random()
        if draw < .15:
            plan.append(("clean", []))
        elif draw < .25:
            plan.append((random.choice(SPECIAL_CASES), None))
        elif draw < .265:
            name = random.choice(tuple(LONG_PHASES))
            plan.append((name, [name]))
        elif draw < .35:
            name = random.choice(tuple(FATAL_PHASES))
            plan.append((name, [name]))
        elif draw < .6:
            name = random.choice(tuple(RECOVERABLE))
            plan.append((name, [name]))
        else:
            names = random.choices(tuple(RECOVERABLE), k=random.randrange(2, 6))
            if random.random() < .15:
                names.append(random.choice(tuple(FATAL_PHASES)))
            plan.append(("mixed: " + ", ".join(names), names))
    return plan


def make(cases, seed, only=None, interval=2 * SECOND):
    """Return the frames of `cases` cases. `only`: the name of all cases. All cases start within `interval` ns."""
    random = random_module.Random(seed)
    pool = HostPool(random)
    if only:
        plan = [(only, None if only in SPECIAL_CASES else [] if only == "clean" else [only])] * cases
    else:
        plan = draw_plan(random, cases)
    connections = []
    for number, (name, names) in enumerate(plan):
        own = random_module.Random(f"{seed}/{number}")  # a change to one case does not affect the others
        begin = START + 10 * MILLISECOND + own.randrange(interval)
        if names is None:
            connections += _special_case(pool, own, begin, name)
        elif name == "clean":
            connections += _clean_case(pool, own, begin, name)
        else:
            connections += _phases_case(pool, own, begin, name, names)
    # Add a much later frame, so that missing responses cannot be in flight at the end of the capture.
    end = max(c.clock.now for c in connections) + 12 * SECOND
    c = pool.connection(random_module.Random(f"{seed}/end"), begin=end)
    c.name, c.clean = "clean", True
    phases.clean(c, 0)
    return Frames(connections + [c])

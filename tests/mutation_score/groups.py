"""The parts of the product that have a score of their own, and the draw of a sample."""

import random

_PUBLIC = "include/grpc_idempotency/"

# The first prefix of a file's name decides.
_GROUPS = (
    ("reservation", ("interceptors/server/reservation/", "interceptors/server/connection/")),
    ("execution", ("interceptors/server/execution", _PUBLIC + "server_guard/execution")),
    ("ledger", ("interceptors/server/ledger/", _PUBLIC + "ledger/")),
    ("policy", ("interceptors/server/policy/", "interceptors/server/method_policy",
                _PUBLIC + "server_guard/method_policy", _PUBLIC + "server_guard/disposition")),
    ("guard", ("interceptors/server/", _PUBLIC + "server_guard/")),
    ("batcher", ("server/queue/answer_report", "server/queue/batch", "server/queue/held_call",
                 "server/queue/operation_", "server/queue/queue", "server/queue/store_call",
                 "server/queue/record_queue", "server/queue/fair_queue",
                 "server/operation/pending_operation")),
    ("waiting", ("server/queue/in_flight_waiters", "server/queue/record_schedule")),
    ("stores", ("server/store/", "postgres/")),
    ("session", ("client/connection/session", "client/connection/stream_state",
                 "client/connection/bad_frame", "client/connection/open_streams",
                 "client/connection/deferred_actions", "client/connection/outstanding",
                 "client/connection/waiting_operations", "client/connection/deadline_timer",
                 "server/rpc/session", "server/rpc/answer_frames", "server/rpc/frame_bounds",
                 "server/rpc/gathered_answers", "server/rpc/request_frame",
                 "server/rpc/unanswered_operation")),
    ("retries", ("client/retries/", "client/key_store/", "interceptors/client/retr",
                 _PUBLIC + "client/call_with_retries", _PUBLIC + "client/key_store",
                 _PUBLIC + "client/pinned_key", _PUBLIC + "client/retry",
                 _PUBLIC + "client/sqlite_key_store", _PUBLIC + "client_interceptor/retry")),
)
OTHER = "other"
NAMES = tuple(name for name, _ in _GROUPS) + (OTHER,)


def group_of(file):
    for name, beginnings in _GROUPS:
        if file.startswith(beginnings):
            return name
    return OTHER


def _order(mutants, random_numbers):
    """Lines in a drawn order, and of each line one mutant, then all lines a second time."""
    lines = {}
    for mutant in mutants:
        lines.setdefault((mutant.file, mutant.first), []).append(mutant)
    drawn = []
    for place in sorted(lines):
        operators = {}
        for mutant in random_numbers.sample(lines[place], len(lines[place])):
            operators.setdefault(mutant.operator, []).append(mutant)
        # One of each operator in turn: a line with many numbers is one line.
        turns = random_numbers.sample(sorted(operators), len(operators))
        order = []
        while any(operators.values()):
            order += [operators[name].pop() for name in turns if operators[name]]
        drawn.append((random_numbers.random(), order))
    drawn.sort(key=lambda entry: entry[0])
    rounds = max((len(order) for _, order in drawn), default=0)
    return [order[turn] for turn in range(rounds) for _, order in drawn if turn < len(order)]


def draw(mutants, size, seed):
    """`size` places, spread over the groups. Each is a list: the mutant to try, and those that
    replace it, one after the other, if it does not compile."""
    streams = {}
    for name in NAMES:
        of_group = [mutant for mutant in mutants if group_of(mutant.file) == name]
        if of_group:
            streams[name] = _order(of_group, random.Random(f"{seed} {name}"))
    places = {name: 0 for name in streams}
    turn = []
    while len(turn) < min(size, len(mutants)):
        before = len(turn)
        for name, stream in streams.items():
            if len(turn) < size and places[name] < len(stream):
                turn.append((name, places[name]))
                places[name] += 1
        if len(turn) == before:
            break
    return [streams[name][number::places[name]] for name, number in turn]

"""One completed reply per record and life; every replay has its bytes."""

from .invariant import Invariant


class OneReply(Invariant):
    name = "reply"
    survives_loss = True

    def check(self, history):
        seen = [op for op in history.operations if op.final_reply is not None]
        if not seen:
            return
        own = history.own_replies()
        for op in seen:
            if op.final_reply not in own:
                yield self.broken(history, f"reply {op.final_reply} was made by no execution of "
                                           "this record", op)
                return
        known, ambiguous = {}, []
        for op in seen:
            lives = history.lives_of(op.sent_at, op.settled_at)
            if len(lives) > 1:
                ambiguous.append((op, lives))
                continue
            first = known.setdefault(id(lives[0]), op)
            if first.final_reply != op.final_reply:
                yield self.broken(history, f"two replies: {first.final_reply} and "
                                           f"{op.final_reply}", first, op)
        for op, lives in ambiguous:
            firsts = [known.get(id(life)) for life in lives]
            if None not in firsts and all(first.final_reply != op.final_reply for first in firsts):
                yield self.broken(history, f"reply {op.final_reply} is neither life's", op, *firsts)

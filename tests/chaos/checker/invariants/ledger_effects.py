"""With the completion ledger a completed record has exactly one effect, after any kill."""

from .invariant import Invariant


class LedgerEffects(Invariant):
    name = "ledger"
    survives_loss = True

    def check(self, history):
        executions = history.executions
        if not executions or not all(execution.ledger for execution in executions):
            return
        effects = history.effects
        # A ledger's row is kept longer than its record: it sees one life only.
        for extra in effects[1:]:
            yield self.broken(history, "two effects in spite of the ledger", effects[0], extra)
        replies = {op.final_reply: op for op in history.operations if op.final_reply is not None}
        for effect in effects:
            if effect.reply is None:
                continue
            for reply, op in replies.items():
                if reply != effect.reply:
                    yield self.broken(history, "the reply is not the one that was committed with "
                                               "the effect", effect, op)
        if effects:
            return
        completed = next((op for op in history.operations
                          if op.kind == "call" and op.ok and op.code == "OK"), None)
        if completed is None and not any(execution.outcome == "refused"
                                         for execution in executions):
            completed = next((probe for probe in history.probes if probe.state == "COMPLETED"), None)
        if completed is not None:
            yield self.broken(history, "completed, and its effect is not there", completed)

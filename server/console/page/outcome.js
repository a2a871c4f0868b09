// The line of a dialog that shows what its last action did.
import { Fault, faultTitle, sentence } from "./calls.js";
import { printable } from "./text.js";

export class Outcome {
  constructor(line) {
    this.line = line;
  }

  report(level, text) {
    this.line.dataset.level = level;
    this.line.textContent = text;
  }

  // Runs the action, and reports its fault if it has one.
  async attempt(action) {
    try {
      await action();
    } catch (fault) {
      if (!(fault instanceof Fault)) throw fault;
      this.report("bad", `${faultTitle(fault)}: ${printable(sentence(fault))}`);
    }
  }
}

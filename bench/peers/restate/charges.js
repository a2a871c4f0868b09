// Serves the handler of charges that Restate calls, over cleartext HTTP/2.
import http2 from "node:http2";
import * as restate from "@restatedev/restate-sdk";

const receiptBytes = 256;
let executions = 0;

const charges = restate.service({
  name: "Charges",
  handlers: {
    // Receipts are numbered, so that a second execution shows.
    charge: async (_context, _request) => ({
      receipt: `${++executions} `.padEnd(receiptBytes, "Z"),
    }),
  },
});

const server = http2.createServer(restate.createEndpointHandler({ services: [charges] }));
server.listen(0, "127.0.0.1", () => {
  console.log(`charges: serving on 127.0.0.1:${server.address().port}`);
});

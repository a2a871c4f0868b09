// The health service of grpc-js-health-check, and a counter in front of it: a line "executed METHOD
// KEY" for each execution, whose number is a trailer.
const grpc = require('@grpc/grpc-js');
const { Implementation, service, servingStatus } = require('grpc-js-health-check');

const health = new Implementation({ '': servingStatus.SERVING });
let executions = 0;

function counted(method, handler) {
  return (call, callback) => {
    const [key] = call.metadata.get('idempotency-key');
    console.log('executed', method, key === undefined ? '-' : key);
    const trailer = new grpc.Metadata();
    trailer.set('x-execution', String(++executions));
    handler(call, (error, reply) => callback(error, reply, trailer));
  };
}

const server = new grpc.Server();
server.addService({ Check: service.Check }, {
  Check: counted(service.Check.path, health.check.bind(health)),
});
server.bindAsync('127.0.0.1:0', grpc.ServerCredentials.createInsecure(), (error, port) => {
  if (error) throw error;
  console.log(`serving on 127.0.0.1:${port}`);
});
